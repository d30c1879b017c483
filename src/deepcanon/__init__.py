"""The deep-learning canon as one library: every model under one contract, one trainer, one command line.

>>> import deepcanon as dc
>>> data = dc.load_data("digits")
>>> model = dc.find("mlp")(features=64, classes=10)
>>> result = dc.fit(model, data, epochs=2, quiet=True)
>>> result.test["accuracy"] > 0.5
True
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepcanon.catalogue import find

if TYPE_CHECKING:
    from deepcanon.core import Model
    from deepcanon.data import Dataset, from_tensors, load_data
    from deepcanon.train import Observer, Result, Trainer, evaluate, fit

__version__ = "0.1.0"
__all__ = ["Trainer", "evaluate", "find", "fit", "from_tensors", "load", "load_data", "resume"]

_HOMES = {
    "from_tensors": "deepcanon.data",
    "load_data": "deepcanon.data",
    "evaluate": "deepcanon.train",
    "fit": "deepcanon.train",
    "Trainer": "deepcanon.train",
}


def __getattr__(name: str) -> Any:
    """Import torch only when something needs it, so that the command line answers at once."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'deepcanon' has no attribute {name!r}")


def load(run: str | Path, model: type[Model[Any]] | None = None) -> Model[Any]:
    """The trained model of a run; ``model`` is its class where that is not in the catalogue."""
    from deepcanon import train

    return train.load(run, find=_Finder(model))


def resume(
    run: str | Path,
    data: Dataset[Any] | None = None,
    model: type[Model[Any]] | None = None,
    *,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> Result:
    """Go on with a run that was broken off, from its last whole checkpoint.

    ``data`` and ``model`` are needed where the run's data have no name or its class is not in the catalogue.
    """
    from deepcanon import train

    return train.resume(run, data, find=_Finder(model), quiet=quiet, observers=observers)


class _Finder:
    """Finds models in the catalogue, and one class besides."""

    def __init__(self, extra: type[Model[Any]] | None) -> None:
        self.extra = extra

    def __call__(self, name: str) -> type[Model[Any]]:
        if self.extra is not None and name == self.extra.name():
            return self.extra
        return find(name)
