"""Faults in the code of models of one's own under the contract."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

import deepcanon as dc
from deepcanon.core import Descend, Turn
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.catalogue_settings import measured, mlp_on_houses

code = partial(fault, area="code")


class Net(dc.Model[dc.Labeled]):
    """A network of one's own with one hidden layer that classifies."""

    recipe = dc.Recipe(lr=3e-3, epochs=20, batch_size=64)

    def __init__(self, features: int = 64, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(features, width), nn.Linear(width, classes)

    @classmethod
    def example(cls) -> tuple[Self, dc.Labeled]:
        x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
        return cls(), dc.Labeled(x, torch.arange(32) % 10)

    def hidden(self, x: Tensor) -> Tensor:
        out: Tensor = self.first(x.flatten(1)).relu()
        return out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.hidden(x))
        return out

    def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
        return {"nll": functional.cross_entropy(self(batch.x), batch.y)}

    @torch.no_grad()
    def predict(self, x: Tensor, how: str = "mode", generator: Generator | None = None) -> Tensor:
        shares: Tensor = self(x).softmax(-1)
        if how == "sample":
            return shares.multinomial(1, generator=generator).squeeze(-1)
        return shares if how == "mean" else shares.argmax(-1)


def own_classifier() -> Patient:
    """A class of one's own on the digits."""
    data = copy.deepcopy(dc.load_data("digits"))
    return Patient(Net(), data, measured("accuracy", 1.0), 0.1, copy.deepcopy(data.test), steps=300)


class Regression(dc.Model[dc.Labeled]):
    """A regression of one's own with one hidden layer."""

    recipe = dc.Recipe(lr=5e-3, epochs=20, batch_size=64)

    def __init__(self, features: int = 6, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, 1))

    @classmethod
    def example(cls) -> tuple[Self, dc.Labeled]:
        x = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
        return cls(), dc.Labeled(x, x[:, :1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out

    def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
        return {"mse": (self(batch.x) - batch.y).square().mean()}

    @torch.no_grad()
    def predict(self, x: Tensor, how: str = "mode", generator: Generator | None = None) -> Tensor:
        out: Tensor = self(x).reshape(-1, 1)
        return out


def own_regression() -> Patient:
    """A class of one's own on the houses."""
    patient = mlp_on_houses()
    patient.model, patient.steps = Regression(), 400
    return patient


@code(own_classifier, "softmax before cross-entropy")
def softmax_twice(patient: Patient) -> None:
    class Softened(Net):
        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            return {"nll": functional.cross_entropy(self(batch.x).softmax(-1), batch.y)}

    patient.model = Softened()
    patient.score = measured("nll", -1.0)
    patient.chance = -2.3


@code(own_classifier, "missing log-softmax")
def scores_as_log_probabilities(patient: Patient) -> None:
    class Raw(Net):
        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            return {"nll": functional.nll_loss(self(batch.x), batch.y)}

    patient.model = Raw()


@code(own_classifier, "wrong reduction")
def sum_of_the_examples(patient: Patient) -> None:
    class Summed(Net):
        recipe = dc.Recipe(optimizer="sgd", lr=0.1, batch_size=64)

        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            return {"nll": functional.cross_entropy(self(batch.x), batch.y, reduction="sum")}

    patient.model = Summed()


@code(own_classifier, "detached graph")
def hidden_layer_cut_off(patient: Patient) -> None:
    class CutOff(Net):
        def hidden(self, x: Tensor) -> Tensor:
            return super().hidden(x).detach()

    patient.model = CutOff(width=6)


@code(own_classifier, "examples mix within a batch")
def normalized_over_the_batch(patient: Patient) -> None:
    class Mixed(Net):
        def hidden(self, x: Tensor) -> Tensor:
            h = super().hidden(x)
            return len(h) * h / (h.sum(0) + 1e-3) * h.softmax(0)

    def alone(p: Patient) -> float:
        model: Any = p.model.eval()
        answers = torch.cat([model.predict(part) for part in p.fresh.x.split(1)])
        return float((answers == p.fresh.y).float().mean())

    patient.model, patient.score = Mixed(), alone


@code(own_classifier, "train mode in evaluation")
def dropout_in_every_mode(patient: Patient) -> None:
    class Dropping(Net):
        def hidden(self, x: Tensor) -> Tensor:
            return functional.dropout(super().hidden(x), 0.8, training=True)

    patient.model = Dropping()


@code(own_classifier, "unregistered parameters")
def layers_kept_in_a_list(patient: Patient) -> None:
    class Hidden(Net):
        def __init__(self, features: int = 64, classes: int = 10, width: int = 5) -> None:
            super().__init__(features, classes, width)
            self.more = [nn.Linear(width, width) for _ in range(3)]
            self.first.requires_grad_(True)

        def hidden(self, x: Tensor) -> Tensor:
            h = super().hidden(x)
            for layer in self.more:
                h = layer(h).tanh()
            return h

    patient.model = Hidden()


@code(own_classifier, "parameters not in the optimizer", "frozen parameters")
def turn_that_forgets_a_layer(patient: Patient) -> None:
    class Forgetful(Net):
        def turns(self) -> Sequence[Turn[Any]]:
            return [Descend(self.loss, self.last.parameters())]

    patient.model = Forgetful(width=6)


@code(own_classifier, "loss with the wrong sign")
def likelihood_minimized(patient: Patient) -> None:
    class Ascending(Net):
        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            return {"log_likelihood": -functional.cross_entropy(self(batch.x), batch.y)}

    patient.model = Ascending()


@code(own_classifier, "non-finite values")
def logarithm_of_probabilities(patient: Patient) -> None:
    class Underflow(Net):
        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            shares = (300 * self(batch.x)).softmax(-1)
            return {"nll": -shares.log().gather(1, batch.y.unsqueeze(1)).mean()}

    patient.model = Underflow()


@code(own_regression, "wrong broadcast of targets")
def column_against_row(patient: Patient) -> None:
    class Stretched(Regression):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(x).squeeze(-1)
            return out

    patient.model = Stretched()


@code(own_regression, "input not used")
def inputs_not_used(patient: Patient) -> None:
    class Blind(Regression):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(torch.ones_like(x))
            return out

    patient.model = Blind()


@code(own_regression, "in-place fault")
def data_changed_in_place(patient: Patient) -> None:
    class Changing(Regression):
        def loss(self, batch: dc.Labeled) -> dict[str, Tensor]:
            batch.y.mul_(0.5)
            return super().loss(batch)

    patient.model = Changing()
    patient.settings["batch_size"] = len(patient.data.train)


@code(own_regression, "output cannot reach targets")
def squared_output(patient: Patient) -> None:
    class Positive(Regression):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).square()

    patient.model = Positive()
