"""Fitting: the one function that trains a model on data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from deepcanon.core import Model, UsageError
from deepcanon.core.settings import Settings
from deepcanon.data import Dataset
from deepcanon.train.observers import Observer
from deepcanon.train.result import Result
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Trainer


def fit(
    model: Model[Any],
    data: Dataset[Any],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
    **settings: Unpack[Settings],
) -> Result:
    """Train ``model`` on ``data``; with ``out`` into a run's folder, without it nothing is written to disk.

    ``settings`` are those of :class:`~deepcanon.core.settings.Settings`; what is not given comes from the model's
    recipe.

    >>> from deepcanon.core.toy import Toy
    >>> from deepcanon.data import from_tensors
    >>> model, batch = Toy.example()
    >>> result = fit(model, from_tensors(batch.x), quiet=True, epochs=60)
    >>> bool((model.mean - batch.x.mean(0)).abs().max() < 0.05)
    True
    """
    _check(model, data, out)
    trainer = Trainer(model, data, resolve_settings(model.recipe, **settings), quiet=quiet, observers=observers)
    if out is not None:
        trainer.write_to(Path(out), overwrite=overwrite)
    return trainer.fit()


def _check(model: Any, data: Any, out: Any) -> None:
    """Refuse what is not a model, a data set or the name of a folder."""
    if not isinstance(model, Model):
        raise UsageError(f"fit trains a model that is built, got {model!r}; Run.train(name, data) takes names")
    if not isinstance(data, Dataset):
        kind = type(data).__name__
        raise UsageError(f"fit takes a Dataset, got {kind}; load_data(name) and from_tensors(x, y) make one")
    if out is not None and not str(out):
        raise UsageError("the folder of a run needs a name, got an empty one")
