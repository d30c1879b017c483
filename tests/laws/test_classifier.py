"""Each law of classifiers is shown a module that breaks it; modules of torch alone and our own keep them all."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, How, Labeled, Terms, UsageError
from deepcanon.laws import classifier as laws
from deepcanon.laws import report
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.losses.hinge import hinge
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.softmax_regression import SoftmaxRegression


def points(classes: int = 3, features: int = 5) -> Labeled:
    random = Generator().manual_seed(1)
    y = torch.arange(24) % classes
    return Labeled(torch.randn(24, features, generator=random), y)


def network(classes: int = 3, features: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, classes))


def failing(module: nn.Module, batch: Labeled) -> set[str]:
    return {outcome.law for outcome in laws.check_classifier(module, batch) if not outcome.holds}


def verdict(law: Law, module: nn.Module, batch: Labeled) -> Outcome:
    found = law(module, batch)
    assert found is not None
    return found


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_plain_sequential_keeps_the_laws(classes: int) -> None:
    found = laws.check_classifier(network(classes), points(classes))
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 8  # the three about predict and loss do not apply to a plain module


def test_networks_with_dropout_and_normalization_keep_the_laws() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(16), nn.Linear(16, 3)
    )
    found = laws.check_classifier(module, points())
    assert all(outcome.holds for outcome in found), report(found)


def test_a_convolutional_network_keeps_the_laws() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
    batch = Labeled(torch.randn(12, 1, 6, 6, generator=Generator().manual_seed(0)), torch.arange(12) % 3)
    found = laws.check_classifier(module, batch)
    assert all(outcome.holds for outcome in found), report(found)


@pytest.mark.parametrize("model", [MLP, SoftmaxRegression])
def test_our_classifiers_keep_the_laws(model: Any) -> None:
    found = laws.check_classifier(*model.example())
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 11


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_probabilities_fed_to_a_logits_loss_are_caught(classes: int) -> None:
    twice = nn.Sequential(network(classes), nn.Softmax(-1))
    assert failing(twice, points(classes)) == {"logits are not probabilities", "learns one example per class"}


def test_log_probabilities_are_logits() -> None:
    assert failing(nn.Sequential(network(), nn.LogSoftmax(-1)), points()) == set()


class SoftmaxInItsLoss(MLP):
    def loss(self, batch: Labeled) -> Terms:
        return {"nll": F.cross_entropy(self(batch.x).softmax(-1), batch.y)}


def test_a_loss_that_is_not_the_negative_log_likelihood_is_caught() -> None:
    torch.manual_seed(0)
    found = verdict(laws.loss_is_the_negative_log_likelihood, *SoftmaxInItsLoss.example())
    assert not found.holds


class WithPenalty(MLP):
    def loss(self, batch: Labeled) -> Terms:
        return super().loss(batch) | {"decay": torch.stack([p.square().sum() for p in self.parameters()]).sum()}


def test_a_penalty_next_to_the_log_likelihood_is_allowed() -> None:
    assert verdict(laws.loss_is_the_negative_log_likelihood, *WithPenalty.example()).holds


class AlwaysTraining(nn.BatchNorm1d):
    """A normalization by the batch, also in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True)


def test_a_normalization_by_the_batch_in_eval_mode_is_caught() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 8), AlwaysTraining(8), nn.ReLU(), nn.Linear(8, 3))
    assert not verdict(laws.examples_do_not_mix, module, points()).holds


class WatchesTheMaximum(nn.Module):
    """Every example is scaled by the largest of the batch: alone or together is one thing, next to NaN another."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + 0 * x.sum()  # type: ignore[no-any-return]


def test_an_example_that_suffers_from_a_broken_neighbor_is_caught() -> None:
    found = verdict(laws.examples_do_not_mix, WatchesTheMaximum(), points())
    assert not found.holds
    assert "next to broken ones" in found.detail


class CountsPlaces(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor) -> Tensor:
        places = torch.linspace(0, 1, len(x), dtype=x.dtype).unsqueeze(1)
        return self.net(x + places)  # type: ignore[no-any-return]


def test_an_output_that_depends_on_the_position_in_the_batch_is_caught() -> None:
    assert not verdict(laws.order_does_not_matter, CountsPlaces(), points()).holds


class Casts(nn.Module):
    """A network that works in single precision only, whatever it is given."""

    def __init__(self, inner: nn.Module, output: bool) -> None:
        super().__init__()
        self.inner, self.output = inner, output

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x).float() if self.output else self.inner(x.float())
        return answer


@pytest.mark.parametrize("output", [False, True])
def test_a_network_that_casts_is_checked_in_single_precision(output: bool) -> None:
    found = laws.check_classifier(Casts(network(), output), points())
    names = {outcome.law for outcome in found}
    assert [outcome for outcome in found if not outcome.holds] == []
    assert {"examples do not mix", "order does not matter"} <= names
    assert "gradient is the slope" not in names, "differences in single precision say nothing"
    mixing = Casts(nn.Sequential(AlwaysTraining(5), network()), output)
    assert "examples do not mix" in failing(mixing, points())
    assert "order does not matter" in failing(Casts(CountsPlaces(), output), points())


def test_dropout_in_eval_mode_is_caught() -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.5, training=True)

    assert not verdict(laws.same_input_same_output, nn.Sequential(Drops(), network()), points()).holds


class WrongSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class HandMadeTanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        slope: Tensor = WrongSlope.apply(x)  # type: ignore[no-untyped-call]
        return slope


class Detaches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


@pytest.mark.parametrize("fault", [HandMadeTanh, Detaches])
def test_a_gradient_that_is_not_the_slope_is_caught(fault: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 8), fault(), nn.Linear(8, 3))
    assert not verdict(laws.gradient_is_the_slope, module, points()).holds


def test_a_module_that_cannot_learn_is_caught() -> None:
    class Blind(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros_like(x)

    assert not verdict(laws.learns_one_example_per_class, nn.Sequential(Blind(), network()), points()).holds


def test_outputs_that_are_infinite_or_too_few_are_caught() -> None:
    class Overflows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * float("inf")

    assert not verdict(laws.gives_logits_for_every_class, nn.Sequential(network(), Overflows()), points()).holds
    assert not verdict(laws.gives_logits_for_every_class, network(2), points(3)).holds


class RemembersLabels(MLP):
    """Its predictions are the labels of the last batch of its loss."""

    last: Tensor

    def loss(self, batch: Labeled) -> Terms:
        self.last = batch.y
        return super().loss(batch)

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        if how == "mode" and len(getattr(self, "last", ())) == len(inputs[0]):
            return self.last
        return super().predict(*inputs, how=how, generator=generator)


def test_labels_that_leak_are_caught() -> None:
    found = verdict(laws.shuffled_labels_give_chance, *RemembersLabels.example())
    assert found.measured == 1.0
    assert not found.holds


class SaysTheUnlikeliest(MLP):
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        if how == "mode":
            return self(*inputs).argmin(-1)  # type: ignore[no-any-return]
        return super().predict(*inputs, how=how, generator=generator)


def test_a_mode_that_is_not_the_likeliest_class_is_caught() -> None:
    torch.manual_seed(0)
    assert not verdict(laws.mode_is_the_likeliest_class, *SaysTheUnlikeliest.example()).holds


class SamplesTooEvenly(MLP):
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        if how == "sample":
            shares = super().predict(*inputs, how="mean").sqrt()
            return torch.multinomial(shares, 1, generator=generator).squeeze(-1)
        return super().predict(*inputs, how=how, generator=generator)


class DrawsTheImpossible(MLP):
    """Its probabilities are all on one class, its draws are on the other."""

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        rows = len(inputs[0])
        if how == "mean":
            return torch.eye(2)[torch.zeros(rows, dtype=torch.long)]
        return torch.randint(2, (rows,), generator=generator)


@pytest.mark.parametrize("mutant", [SamplesTooEvenly, DrawsTheImpossible])
def test_draws_that_do_not_follow_the_probabilities_are_caught(mutant: Any) -> None:
    torch.manual_seed(0)
    assert not verdict(laws.samples_follow_the_mean, *mutant.example()).holds


class ChargesTheMargin(MLP):
    """Its loss is not a log-likelihood, which it may declare or not."""

    def loss(self, batch: Labeled) -> Terms:
        return {"hinge": hinge(self(batch.x), batch.y)}


class SaysSo(ChargesTheMargin):
    surrogate = True


def test_a_loss_that_is_declared_a_surrogate_need_not_be_the_negative_log_likelihood() -> None:
    torch.manual_seed(0)
    assert not verdict(laws.loss_is_the_negative_log_likelihood, *ChargesTheMargin.example()).holds
    assert laws.loss_is_the_negative_log_likelihood(*SaysSo.example()) is None


def test_what_has_no_weights_to_learn_is_not_asked_to_learn() -> None:
    fixed = network().requires_grad_(False)
    assert laws.shuffled_labels_give_chance(fixed, points()) is None
    assert laws.learns_one_example_per_class(fixed, points()) is None
    assert laws.shuffled_labels_give_chance(network(), points()) is not None


def test_the_kind_needs_classes() -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        laws.check_classifier(network(), Batch(torch.zeros(3, 5)))
    with pytest.raises(UsageError, match="whole numbers"):
        laws.check_classifier(network(), Labeled(torch.zeros(3, 5), torch.zeros(3, 1)))
