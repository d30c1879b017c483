"""Data sets in memory: sizes, splits, checksummed downloads, and preprocessing that is saved with a run."""

from deepcanon.data.dataset import Dataset, Kind, batches
from deepcanon.data.load import absolute_name, describe_data, load_data, load_rows
from deepcanon.data.tables.table import in_original_units
from deepcanon.data.tensors import from_graphs, from_tensors

__all__ = [
    "Dataset", "Kind", "absolute_name", "batches", "describe_data", "from_graphs", "from_tensors", "in_original_units", "load_data",
    "load_rows",
]  # fmt: skip
