"""The diabetes data of scikit-learn: ten measurements of each patient, and the disease progression after a year."""

from __future__ import annotations

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, fixed_random
from deepcanon.data.tables.number_table import number_table


def load(entry: Entry) -> Dataset[Labeled]:
    """The patients in a fixed split, with all features and the target standardized on the training split."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes(scaled=False)
    splits = cut(fixed_random(0).permutation(len(found.target)), entry.counts)
    return number_table(entry, found.feature_names, found.data, "progression", found.target, splits)


DIABETES = Entry(
    name="diabetes",
    kind="table",
    shape=(10,),
    sizes={"features": 10, "targets": 1},
    counts=(310, 44, 88),
    source="scikit-learn, load_diabetes (Efron et al., 2004), standardized",
    load=load,
)
