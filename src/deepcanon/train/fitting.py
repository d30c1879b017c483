"""Fitting: the one function that trains a model on data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from torch import nn
from torch.utils.data import DataLoader

from deepcanon.core import Model, PlainModule, UsageError
from deepcanon.core.plain_module import Loss
from deepcanon.core.settings import Settings
from deepcanon.data import of
from deepcanon.train.observers import Observer
from deepcanon.train.result import Result
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Trainer


def fit(
    model: nn.Module,
    data: Any,
    *,
    loss: Loss | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
    **settings: Unpack[Settings],
) -> Result:
    """Train ``model`` on ``data``; with ``out`` into a run's folder, without it nothing is written to disk.

    A plain module that is no :class:`~deepcanon.core.Model` is trained by ``loss``, a function of its output and the
    labels, as :class:`~deepcanon.core.PlainModule` says. Data are a data set, its name, or what makes one
    (:func:`~deepcanon.data.of`): arrays or tensors, x or a tuple (x, y); a torch ``Dataset``; or a ``DataLoader``,
    which also gives its batch size, while the order of the examples is the trainer's.

    ``settings`` are those of :class:`~deepcanon.core.settings.Settings`; what is not given comes from the model's
    recipe.

    >>> from deepcanon.core.toy import Toy
    >>> from deepcanon.data import from_tensors
    >>> model, batch = Toy.example()
    >>> result = fit(model, from_tensors(batch.x), quiet=True, epochs=60)
    >>> bool((model.mean - batch.x.mean(0)).abs().max() < 0.05)
    True
    """
    trained, examples = _model(model, loss), of(data)
    if out is not None and not str(out):
        raise UsageError("the folder of a run needs a name, got an empty one")
    if isinstance(data, DataLoader) and data.batch_size is not None:
        settings.setdefault("batch_size", data.batch_size)
    chosen = resolve_settings(trained.recipe, **settings)
    trainer = Trainer(trained, examples, chosen, quiet=quiet, observers=observers)
    if out is not None:
        trainer.write_to(Path(out), overwrite=overwrite)
    return trainer.fit()


def _model(model: Any, loss: Loss | None) -> Model[Any]:
    if not isinstance(model, nn.Module):
        raise UsageError(f"fit trains a model that is built, got {model!r}; Run.train(name, data) takes names")
    kind = type(model).__name__
    if isinstance(model, Model):
        if loss is not None:
            raise UsageError(f"{kind} has a loss of its own; leave out the other one")
        return model
    if loss is None:
        raise UsageError(
            f"{kind} is a plain module without a loss: give one, loss=torch.nn.CrossEntropyLoss() for instance, or "
            "derive it from deepcanon.Model"
        )
    return PlainModule(model, loss)
