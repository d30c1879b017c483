"""The wine data of scikit-learn: thirteen chemical measurements of wines of three cultivars."""

from __future__ import annotations

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, stratified_order
from deepcanon.data.tables.number_table import number_table


def load(entry: Entry) -> Dataset[Labeled]:
    """The wines in a fixed split, stratified by class, standardized on the training split."""
    from sklearn.datasets import load_wine

    found = load_wine()
    splits = cut(stratified_order(found.target, seed=0), entry.counts)
    return number_table(entry, found.feature_names, found.data, "cultivar", found.target, splits)


WINE = Entry(
    name="wine",
    kind="table",
    shape=(13,),
    sizes={"features": 13, "classes": 3},
    counts=(125, 17, 36),
    source="scikit-learn, load_wine (Aeberhard et al., 1992), standardized",
    load=load,
    labels=("0", "1", "2"),
)
