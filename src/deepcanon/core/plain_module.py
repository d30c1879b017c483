"""Plain modules: any ``torch.nn.Module`` with a loss as a model under the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from deepcanon.core.batch import AnyBatch, Labeled
from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.model import Model
from deepcanon.core.roles import How
from deepcanon.core.turn import Terms

Loss = Callable[..., Tensor]
"""A loss of what a module gives and what it should give: ``loss(output, target)``, the mean over the examples."""

LOGITS = (nn.CrossEntropyLoss, functional.cross_entropy)
LOG_PROBABILITIES = (nn.NLLLoss, functional.nll_loss)
MEANS = (nn.MSELoss, functional.mse_loss)
"""Losses that say what a module gives: logits, log-probabilities of classes, or means of targets."""


class PlainModule(Model[AnyBatch]):
    """A plain module and a loss of its output, under the contract.

    The loss is called as ``loss(module(*inputs), target)``: the targets are the labels of the examples or, where they
    have none, the examples themselves, as those of an autoencoder. With cross-entropy (of logits), the negative
    log-likelihood (of log-probabilities) or the squared error it is known what the output means, and the model has
    ``predict``; with any other loss it does not.

    A module and a loss cannot be written down as JSON: a run keeps their names and the weights, and whoever loads it
    gives them again, ``dc.load("runs/net", dc.PlainModule(net, loss))``.

    Arguments:
        module: The module.
        loss: The loss, a function of output and target or a module, that is a mean over the examples.

    >>> model, batch = PlainModule.example()
    >>> list(model.loss(batch)), model.predict(batch.x, how="mean").shape
    (['CrossEntropyLoss'], torch.Size([8, 3]))
    """

    predict: Callable[..., Tensor]

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        super().__init__()
        if not isinstance(module, nn.Module) or isinstance(module, Model):
            raise UsageError(f"a plain module is a torch.nn.Module without a loss of its own, got {_name(module)}")
        if isinstance(loss, type) or not callable(loss):
            raise UsageError(f"loss is a function of output and target, as nn.CrossEntropyLoss(), got {loss!r}")
        if getattr(loss, "reduction", "mean") != "mean":
            raise UsageError(f"a loss is the mean over the examples, got the {loss.reduction} of {_name(loss)}")  # type: ignore[attr-defined]
        self.module = module
        self.criterion = loss
        if _is_one_of(loss, *LOGITS, *LOG_PROBABILITIES, *MEANS):
            self.__dict__["predict"] = self._predict  # into the instance, where protocols look for it

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
        return cls(nn.Linear(2, 3), nn.CrossEntropyLoss()), Labeled(x, torch.arange(8) % 3)

    @property
    def hparams(self) -> Mapping[str, Any]:
        """The names of the module and of the loss, by which a run knows them again."""
        return {"module": _name(self.module), "loss": _name(self.criterion)}

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)

    def loss(self, batch: AnyBatch) -> Terms:
        target = batch.x if batch.labels is None else batch.labels
        output = self(*batch.inputs)
        if isinstance(output, Tensor):
            output = batch.where_labeled(output)
            if _is_one_of(self.criterion, *MEANS) and output.shape != target.shape:  # torch would stretch one of them
                raise DataError(f"the module gives {tuple(output.shape)} where the targets are {tuple(target.shape)}")
        value = self.criterion(output, target)
        if not isinstance(value, Tensor) or value.ndim != 0:
            found = f"the shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise DataError(
                f"the loss {_name(self.criterion)} must be one number, the mean over the examples; got {found}"
            )
        return {_name(self.criterion): value}

    @torch.no_grad()
    def _predict(self, *inputs: Any, how: How = "mode", generator: Generator | None = None) -> Tensor:
        output: Tensor = self(*inputs)
        if _is_one_of(self.criterion, *MEANS):
            if how == "sample":
                raise UsageError("a squared error says nothing of the noise, so there is no sample; take the mean")
            return output
        probabilities = output.softmax(1) if _is_one_of(self.criterion, *LOGITS) else output.exp()
        if how == "sample":
            return probabilities.multinomial(1, generator=generator).squeeze(-1)
        return probabilities if how == "mean" else probabilities.argmax(1)


def _is_one_of(loss: Loss, *losses: Any) -> bool:
    return any(isinstance(loss, each) if isinstance(each, type) else loss is each for each in losses)


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__)).replace("<lambda>", "function")
