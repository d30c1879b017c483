"""What methods share that average the answers of several networks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import How, Labeled, Model, Terms, UsageError, methods_of
from deepcanon.core.checks import one_of
from deepcanon.methods._layers import classes_of
from deepcanon.methods._method import Method


class Averaged(Method[Labeled]):
    """Its answer is the mean over networks: of probabilities where there are classes, else of the targets.

    Held-out examples are measured by that answer, in the loss, too. With one network it is the wrapped model.
    """

    def __init__(self, model: Model[Any]) -> None:
        super().__init__(model)
        if "predict" not in methods_of(model):
            raise UsageError(f"{self.name()} averages answers; {model.name()} has no predict")

    @property
    @abstractmethod
    def averages(self) -> bool:
        """Whether there is more than the wrapped model's own answer."""

    @abstractmethod
    def answers(self, *inputs: Tensor, how: How = "mean", generator: Generator | None = None) -> Tensor:
        """What each network answers, (networks, B, ...)."""

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The wrapped model's kinds of answer from the mean; a drawn one is that of a network drawn per example."""
        one_of(("mode", "mean", "sample"), how=how)
        if not self.averages:
            answer: Tensor = self.model.predict(*inputs, how=how, generator=generator)  # type: ignore[operator]
            return answer
        if how == "sample":
            drawn = self.answers(*inputs, how="sample", generator=generator)
            count, rows = drawn.shape[:2]
            which = torch.randint(count, (rows,), generator=generator, device=drawn.device)
            return drawn[which, torch.arange(rows, device=drawn.device)]
        mean = self.answers(*inputs).mean(0)
        return mean.argmax(-1) if how == "mode" and classes_of(self.model) is not None else mean

    @torch.no_grad()
    def spread(self, *inputs: Tensor) -> Tensor:
        """How far the networks disagree: the standard deviation of their answers, in the shape of the mean."""
        return self.answers(*inputs).std(0, correction=0)

    def loss(self, batch: Labeled) -> Terms:
        if self.training or not self.averages:
            return self.training_loss(batch)
        mean = self.predict(*batch.inputs, how="mean")
        return {"mse": _square(mean, batch)} if classes_of(self.model) is None else {"nll": _surprise(mean, batch)}

    def training_loss(self, batch: Labeled) -> Terms:
        """What is minimized in training, here the wrapped model's own loss."""
        return self.model.loss(batch)

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """Those of the mean answer, and ``spread``, the mean standard deviation of the networks' answers."""
        if not self.averages:
            return self.model.metrics(batch)
        answers = self.answers(*batch.inputs)
        mean, spread = answers.mean(0), answers.std(0, correction=0).mean()
        if classes_of(self.model) is None:
            return {"mse": _square(mean, batch), "mae": (mean - batch.y).abs().sum(-1).mean(), "spread": spread}
        right = mean.argmax(-1) == batch.y
        return {"accuracy": right.to(mean.dtype).mean(), "nll": _surprise(mean, batch), "spread": spread}


def _square(mean: Tensor, batch: Labeled) -> Tensor:
    return (mean - batch.y).square().sum(-1).mean()


def _surprise(mean: Tensor, batch: Labeled) -> Tensor:
    chances = mean.gather(-1, batch.y.unsqueeze(-1)).clamp_min(torch.finfo(mean.dtype).tiny)
    return -chances.log().mean()
