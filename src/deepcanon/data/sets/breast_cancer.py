"""The breast cancer data of scikit-learn: thirty measurements of cell nuclei, and whether the tumor is malignant."""

from __future__ import annotations

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, stratified_order
from deepcanon.data.tables.number_table import number_table


def load(entry: Entry) -> Dataset[Labeled]:
    """The tumors in a fixed split, stratified by class, standardized on the training split."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    splits = cut(stratified_order(found.target, seed=0), entry.counts)
    return number_table(entry, [str(name) for name in found.feature_names], found.data, "tumor", found.target, splits)


BREAST_CANCER = Entry(
    name="breast-cancer",
    kind="table",
    shape=(30,),
    sizes={"features": 30, "classes": 2},
    counts=(398, 57, 114),
    source="scikit-learn, load_breast_cancer (Street et al., 1993), standardized",
    load=load,
    labels=("malignant", "benign"),
)
