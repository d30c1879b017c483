"""The engine of methods that average the predictions of several networks: ensembles."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import How, Labeled, Model, Terms, UsageError, is_conditional, methods_of
from deepcanon.core.checks import one_of
from deepcanon.methods._layers import classes_of
from deepcanon.methods._method import Method


class Ensemble(Method[Labeled]):
    """An ensemble: its prediction is the mean over networks, of probabilities for classes, else of the targets.

    In eval mode this mean is what loss and metrics measure. With one network it is the wrapped model.
    """

    def __init__(self, model: Model[Any]) -> None:
        super().__init__(model)
        if "predict" not in methods_of(model):
            raise UsageError(f"{self.name()} averages predictions; {model.name()} has no predict")
        if is_conditional(model):
            raise UsageError(
                f"{self.name()} averages networks that read their inputs alone; {model.name()} is conditional"
            )

    @property
    @abstractmethod
    def averages(self) -> bool:
        """Whether there is more than the wrapped model's own prediction."""

    @abstractmethod
    def predictions(self, *inputs: Tensor, how: How = "mean", generator: Generator | None = None) -> Tensor:
        """The prediction of each network, (networks, B, ...)."""

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The mode or mean of the averaged prediction; a sample comes from one network, drawn for each example."""
        one_of(("mode", "mean", "sample"), how=how)
        if not self.averages:
            predicted: Tensor = self.model.predict(*inputs, how=how, generator=generator)  # type: ignore[operator]
            return predicted
        if how == "sample":
            drawn = self.predictions(*inputs, how="sample", generator=generator)
            count, rows = drawn.shape[:2]
            which = torch.randint(count, (rows,), generator=generator, device=drawn.device)
            return drawn[which, torch.arange(rows, device=drawn.device)]
        mean = self.predictions(*inputs).mean(0)
        return mean.argmax(-1) if how == "mode" and classes_of(self.model) is not None else mean

    @torch.no_grad()
    def std(self, *inputs: Tensor) -> Tensor:
        """The standard deviation of the networks' predictions, their disagreement, in the shape of the mean."""
        return self.predictions(*inputs).std(0, correction=0)

    def loss(self, batch: Labeled) -> Terms:
        if self.training or not self.averages:
            return self.training_loss(batch)
        mean = self.predict(*batch.inputs, how="mean")
        return {"mse": _mse(mean, batch)} if classes_of(self.model) is None else {"nll": _nll(mean, batch)}

    def training_loss(self, batch: Labeled) -> Terms:
        """The loss in training mode, here the wrapped model's own."""
        return self.model.loss(batch)

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """Those of the mean prediction, and ``std``, the mean standard deviation of the networks' predictions."""
        if not self.averages:
            return self.model.metrics(batch)
        predictions = self.predictions(*batch.inputs)
        mean, std = predictions.mean(0), predictions.std(0, correction=0).mean()
        if classes_of(self.model) is None:
            return {"mse": _mse(mean, batch), "mae": (mean - batch.y).abs().sum(-1).mean(), "std": std}
        right = mean.argmax(-1) == batch.y
        return {"accuracy": right.to(mean.dtype).mean(), "nll": _nll(mean, batch), "std": std}


def _mse(mean: Tensor, batch: Labeled) -> Tensor:
    return (mean - batch.y).square().sum(-1).mean()


def _nll(mean: Tensor, batch: Labeled) -> Tensor:
    probabilities = mean.gather(-1, batch.y.unsqueeze(-1)).clamp_min(torch.finfo(mean.dtype).tiny)
    return -probabilities.log().mean()
