"""Data sets of anything: a name, a file, data frames, tensors, graphs, the data sets of torch and Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from deepcanon.core import AnyBatch, Graph, UsageError
from deepcanon.core.reading import is_frame
from deepcanon.data.dataset import Dataset
from deepcanon.data.frames import of_frame
from deepcanon.data.load import load_data
from deepcanon.data.tensors import from_graph, from_graphs, from_tensors
from deepcanon.data.torch_datasets import parts_of


def of(data: Any, *parts: Any, **named: Any) -> Dataset[Any]:
    """The data set that this is: a data set, a name, a file or folder, a data frame, graphs, or tensors and arrays.

    What it became, :attr:`~deepcanon.data.Dataset.says` says. A data frame (of pandas, polars, Arrow, or a data set of
    Hugging Face) is read as a file of its columns is, with the same options and a ``form``. A tuple is (x,) or (x, y).
    The examples of a torch ``Dataset``, or of that of a ``DataLoader``, x or (x, y) each, are read into memory, once
    and in their order.

    Further arguments are those of :func:`~deepcanon.data.load_data`, :func:`~deepcanon.data.frames.of_frame` of a
    frame, :func:`~deepcanon.data.from_graph` of a graph, :func:`~deepcanon.data.from_graphs` of a list of them or
    :func:`~deepcanon.data.from_tensors`, whichever makes it.

    >>> of("moons").kind, of([[0.5, 1.0], [2.5, 3.0]], [0, 1]).kind
    ('points', 'table')
    """
    if isinstance(data, Dataset):
        if parts or named:
            raise UsageError("a data set has all its parts already; leave out the other arguments")
        return data
    if isinstance(data, AnyBatch):
        raise UsageError(f"give the tensors of {type(data).__name__} one by one, so that their sizes can be counted")
    if isinstance(data, str | Path):
        return load_data(data, *parts, **named)
    if is_frame(data):
        return of_frame(data, *parts, **named)
    if isinstance(data, Graph):
        return from_graph(data, *parts, **named)
    if isinstance(data, list | tuple) and len(data) > 0 and isinstance(data[0], Graph):
        return from_graphs(list(data), *parts, **named)
    if not isinstance(data, list | tuple | TorchDataset | DataLoader) and not hasattr(data, "__array__"):
        raise UsageError(
            "data are a name, a file or folder, a data frame (pandas, polars, Arrow, Hugging Face), graphs, tensors or "
            f"arrays, x or (x, y), or a Dataset or DataLoader of torch; got {type(data).__name__}"
        )
    given = parts_of(data)
    if len(given) > 1 and parts:
        raise UsageError("these data have their y already; leave out the other")
    return from_tensors(*given, *parts, **named)
