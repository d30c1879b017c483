"""The diabetes data of scikit-learn: ten measurements of each patient, and the disease progression after a year."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, fixed_random


def load(entry: Entry) -> Dataset[Labeled]:
    """The patients in a fixed split, with all features and the target standardized on the training split."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    table = np.column_stack([x, y])
    train, *others = cut(fixed_random(0).permutation(len(table)), entry.counts)
    fitted = table[train.numpy()]
    rows = torch.from_numpy(((table - fitted.mean(0)) / fitted.std(0)).astype(np.float32))
    return entry.dataset(*(Labeled(rows[part][:, :-1], rows[part][:, -1:]) for part in (train, *others)))


DIABETES = Entry(
    name="diabetes",
    kind="table",
    shape=(10,),
    sizes={"features": 10, "targets": 1},
    counts=(310, 44, 88),
    source="scikit-learn, load_diabetes (Efron et al., 2004), standardized",
    load=load,
)
