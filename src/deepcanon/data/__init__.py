"""Data sets in memory: sizes, splits, checksummed downloads, and preprocessing that is saved with a run."""

from deepcanon.data.anything import of
from deepcanon.data.dataset import Batches, Dataset, Kind
from deepcanon.data.load import (
    absolute_name,
    asked_ratings,
    describe_data,
    image_names,
    kind_of_path,
    load_data,
    load_rows,
    row_names,
)
from deepcanon.data.tables.table import in_original_units, original_rows
from deepcanon.data.tensors import from_graph, from_graphs, from_tensors
from deepcanon.lazy import listing

__all__ = [
    "Batches",
    "Dataset",
    "Kind",
    "absolute_name",
    "asked_ratings",
    "describe_data",
    "from_graph",
    "from_graphs",
    "from_tensors",
    "image_names",
    "in_original_units",
    "kind_of_path",
    "load_data",
    "load_rows",
    "of",
    "original_rows",
    "row_names",
]  # fmt: skip
__dir__ = listing(__name__)
