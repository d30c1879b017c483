"""Data sets of anything: a name, a file, tensors, graphs, the data sets of torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch, Graph, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.load import load_data
from deepcanon.data.tensors import from_graph, from_graphs, from_tensors
from deepcanon.data.torch_datasets import parts_of


def of(data: Any, *parts: Any, **named: Any) -> Dataset[Any]:
    """The data set that this is: a data set, a name, a file or folder, graphs, or tensors and arrays.

    A tuple is (x,) or (x, y). The examples of a torch ``Dataset``, or of that of a ``DataLoader``, x or (x, y) each,
    are read into memory, once and in their order.

    Further arguments are those of :func:`~deepcanon.data.load_data`, :func:`~deepcanon.data.from_graph` of a graph,
    :func:`~deepcanon.data.from_graphs` of a list of them or :func:`~deepcanon.data.from_tensors`, whichever makes it.

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
    if isinstance(data, Graph):
        return from_graph(data, *parts, **named)
    if isinstance(data, list | tuple) and len(data) > 0 and isinstance(data[0], Graph):
        return from_graphs(list(data), *parts, **named)
    given = parts_of(data)
    if len(given) > 1 and parts:
        raise UsageError("these data have their y already; leave out the other")
    return from_tensors(*given, *parts, **named)
