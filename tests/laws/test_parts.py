"""Each law of parts is shown a part that breaks it and one that keeps it; their kind is found without being named."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv_transpose1d

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.laws.kinds import EXAMPLES, PARTS
from deepcanon.laws.parts import called
from deepcanon.laws.target import target_of
from deepcanon.nn import Causal, RelativeBias


class SoftmaxOverQueries(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output: Tensor = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-2) @ value
        return output


class SoftmaxOverKeys(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output: Tensor = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        return output


class LayerNorm(nn.Module):
    eps = 1e-3

    def spread(self, x: Tensor) -> Tensor:
        return (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / self.spread(x)


class UnbiasedNorm(LayerNorm):
    def spread(self, x: Tensor) -> Tensor:
        return (x.var(-1, keepdim=True) + self.eps).sqrt()


class EpsOutsideNorm(LayerNorm):
    def spread(self, x: Tensor) -> Tensor:
        return x.std(-1, correction=0, keepdim=True) + self.eps


class EpsForgottenNorm(LayerNorm):
    eps = 0.0


class MovesInEvaluation(nn.BatchNorm1d):
    def __init__(self) -> None:
        super().__init__(4)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(x)
        assert self.running_mean is not None
        self.running_mean += 0.1 * (not self.training)
        return output


class WeightNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v, self.g = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.ones(3, 1))

    def size(self) -> Tensor:
        return self.v.square().sum(1, keepdim=True).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.g * self.v / self.size()).T


class SquaredWeightNorm(WeightNorm):
    def size(self) -> Tensor:
        return self.v.square().sum(1, keepdim=True)


class AddsNoiseDropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(x)
        return output + 0.1 * torch.randn_like(x) * self.training * (output != 0)


class AlwaysDropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.p, training=True)


def linear(change: Any) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.Linear(16, 16)
    with torch.no_grad():
        layer.weight.copy_(change(layer.weight))
    return nn.Sequential(layer)


class SquaredConv(nn.Conv1d):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(x)
        return output.square()


class FlippedConvTranspose(nn.ConvTranspose1d):
    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        return conv_transpose1d(x, self.weight.flip(-1), self.bias, self.stride)


class CenteredCausal(Causal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.roll(-1, -1))


class Sinusoidal(nn.Module):
    def frequencies(self, width: int) -> Tensor:
        return 10_000.0 ** (-torch.arange(0, width, 2) / width)

    def forward(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[1]).unsqueeze(1) * self.frequencies(x.shape[-1])
        return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class UnpairedSinusoidal(Sinusoidal):
    def forward(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[1]).unsqueeze(1) * 10_000.0 ** (-torch.arange(x.shape[-1]) / x.shape[-1])
        return x + angle.sin()


class ArithmeticSinusoidal(Sinusoidal):
    def frequencies(self, width: int) -> Tensor:
        return torch.linspace(1.0, 0.1, width // 2)


class ContentSinusoidal(Sinusoidal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.mean().square()


class Rotary(nn.Module):
    sign = 1

    def forward(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        angle = torch.arange(x.shape[1]).unsqueeze(1) * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        a, b = x[..., ::2], x[..., 1::2]
        turned = [a * angle.cos() - b * angle.sin(), a * angle.sin() + self.sign * b * angle.cos()]
        return torch.stack(turned, -1).flatten(-2)


class MirroredRotary(Rotary):
    sign = -1


class AbsoluteRelativeBias(RelativeBias):
    def forward(self, queries: int, keys: int) -> Tensor:
        return super().forward(queries, keys) * torch.arange(keys)


class CrossEntropyLoss(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return -x.log_softmax(-1).gather(1, y.unsqueeze(1)).mean()


class BitsCrossEntropyLoss(CrossEntropyLoss):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(x, y) / torch.tensor(2.0).log()


class FirstCrossEntropyLoss(CrossEntropyLoss):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(x[:1], y[:1])


class DetachedCrossEntropyLoss(CrossEntropyLoss):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(x, y) + x.detach().square().mean()


class UnstableCrossEntropyLoss(CrossEntropyLoss):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return -(x.exp() / x.exp().sum(-1, keepdim=True)).log().gather(1, y.unsqueeze(1)).mean()


class FocalLoss(nn.Module):
    gamma = 2.0

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        log = x.log_softmax(-1).gather(1, y.unsqueeze(1))
        return -(self.factor(log.exp()) * log).mean()

    def factor(self, p: Tensor) -> Tensor:
        return (1 - p) ** self.gamma


class WrongFocalLoss(FocalLoss):
    def factor(self, p: Tensor) -> Tensor:
        return p**self.gamma


class GELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))


class MyGELU(GELU):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.erf(x))


class CenteredGELU(GELU):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - x.mean()


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


class SquareSoftmax(Softmax):
    def forward(self, x: Tensor) -> Tensor:
        return x.square() / x.square().sum(-1, keepdim=True)


class ForgetfulRNN(nn.RNN):
    """The state that is handed on is lost."""

    def forward(self, x: Tensor, h: Any = None) -> Any:  # type: ignore[override]
        return super().forward(x)


class FarsightedRNN(nn.RNN):
    def forward(self, x: Tensor, h: Any = None) -> Any:  # type: ignore[override]
        output, state = super().forward(x, h)
        return output + x.mean(), state + x.mean()


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return z * (-self.log_scale).exp(), -self.log_scale.sum().expand(len(z))


class SameSignScale(Scale):
    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return z * (-self.log_scale).exp(), self.log_scale.sum().expand(len(z))


class CenteredScale(Scale):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x - x.mean(0)) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Uphill(torch.optim.SGD):
    def __init__(self, parameters: Any, lr: float = 0.1) -> None:
        super().__init__(parameters, lr=lr, maximize=True)


class DampedMomentum(torch.optim.SGD):
    def __init__(self, parameters: Any, lr: float = 0.1, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, dampening=0.5)


FAULTS: list[tuple[str, str, Any, Any]] = [
    ("attention", "weights_sum_to_one_over_the_keys", SoftmaxOverKeys, SoftmaxOverQueries),
    ("normalization", "variance_becomes_one", LayerNorm, UnbiasedNorm),
    ("normalization", "epsilon_is_added_to_the_variance", LayerNorm, EpsOutsideNorm),
    ("normalization", "constant_inputs_stay_finite", LayerNorm, EpsForgottenNorm),
    ("normalization", "evaluation_changes_nothing", lambda: nn.BatchNorm1d(4), MovesInEvaluation),
    ("normalization", "weight_is_gain_times_direction", WeightNorm, SquaredWeightNorm),
    ("dropout", "kept_values_are_scaled_alike", nn.Dropout, AddsNoiseDropout),
    ("dropout", "evaluation_draws_nothing", nn.Dropout, AlwaysDropout),
    ("initialization", "weights_have_no_mean", lambda: linear(lambda w: w), lambda: linear(torch.abs)),
    ("initialization", "units_differ", lambda: linear(lambda w: w), lambda: linear(lambda w: w[:1].expand(16, 16))),
    ("convolution", "the_map_is_affine", lambda: nn.Conv1d(2, 3, 3), lambda: SquaredConv(2, 3, 3)),
    (
        "convolution",
        "transposed_is_the_adjoint",
        lambda: nn.ConvTranspose1d(2, 3, 3),
        lambda: FlippedConvTranspose(2, 3, 3),
    ),
    ("convolution", "a_causal_layer_sees_no_future", lambda: Causal(2, 3, 3), lambda: CenteredCausal(2, 3, 3)),
    ("positions", "sines_and_cosines_share_their_frequencies", Sinusoidal, UnpairedSinusoidal),
    ("positions", "frequencies_fall_geometrically", Sinusoidal, ArithmeticSinusoidal),
    ("positions", "an_encoding_does_not_depend_on_the_values", Sinusoidal, ContentSinusoidal),
    ("positions", "a_rotation_keeps_lengths", Rotary, MirroredRotary),
    ("positions", "products_depend_on_the_distance_only", Rotary, MirroredRotary),
    ("positions", "a_bias_depends_on_the_distance_only", lambda: RelativeBias(2), lambda: AbsoluteRelativeBias(2)),
    ("loss", "the_value_is_the_closed_form", CrossEntropyLoss, BitsCrossEntropyLoss),
    ("loss", "the_value_is_the_closed_form", FocalLoss, WrongFocalLoss),
    ("loss", "every_example_counts", CrossEntropyLoss, FirstCrossEntropyLoss),
    ("loss", "the_gradient_is_the_slope", CrossEntropyLoss, DetachedCrossEntropyLoss),
    ("loss", "sure_predictions_stay_finite", CrossEntropyLoss, UnstableCrossEntropyLoss),
    ("activation", "each_value_is_treated_alone", GELU, CenteredGELU),
    ("activation", "the_formula_is_that_of_its_name", GELU, MyGELU),
    ("activation", "a_softmax_gives_probabilities", Softmax, SquareSoftmax),
    ("recurrent", "a_sequence_can_be_read_in_parts", lambda: nn.RNN(3, 4), lambda: ForgetfulRNN(3, 4)),
    ("recurrent", "every_part_of_the_state_matters", lambda: nn.RNN(3, 4), lambda: ForgetfulRNN(3, 4)),
    ("recurrent", "the_future_is_not_seen", lambda: nn.RNN(3, 4), lambda: FarsightedRNN(3, 4)),
    ("transform", "the_inverse_has_the_opposite_log_det", Scale, SameSignScale),
    ("transform", "examples_do_not_mix", Scale, CenteredScale),
    ("optimizer", "a_small_step_goes_downhill", torch.optim.SGD, Uphill),
    ("optimizer", "momentum_is_the_formula", torch.optim.SGD, DampedMomentum),
]


def holds(kind: str, law: str, thing: Any) -> bool:
    torch.manual_seed(0)
    module, batch = target_of(thing)
    assert kind in laws.kinds_of(module)
    outcome = getattr(importlib.import_module(f"deepcanon.laws.{kind}"), law)(module, batch or EXAMPLES[kind](module))
    assert outcome is not None, f"{law} does not apply"
    return bool(outcome.holds)


@pytest.mark.parametrize(
    ("kind", "law", "healthy", "faulty"), FAULTS, ids=[f"{kind}-{law}" for kind, law, *_ in FAULTS]
)
def test_a_planted_fault_is_caught(kind: str, law: str, healthy: Any, faulty: Any) -> None:
    assert holds(kind, law, healthy)
    assert not holds(kind, law, faulty)


def test_a_normalization_is_recognized_without_its_name() -> None:
    class Whitened(nn.Module):
        epsilon = 1e-5

        def forward(self, x: Tensor) -> Tensor:
            return (x - x.mean(0)) / (x.var(0, correction=0) + self.epsilon).sqrt()

    assert laws.kinds_of(Whitened()) == ["normalization"]


def test_names_count_as_words_in_camel_case() -> None:
    class NormalFlow(nn.Module):
        pass

    assert not called(NormalFlow(), "Norm")
    assert called(nn.BatchNorm2d(3), "Norm([0-9]d)?")


def test_what_is_no_part_stays_what_it_was() -> None:
    assert laws.kinds_of(nn.Linear(4, 3)) == ["classifier"]
    assert laws.kinds_of(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))) == ["classifier", "initialization"]
    with pytest.raises(UsageError, match="do not say which laws"):
        laws.kinds_of(nn.Identity())


class DropoutNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        self.p = 0.3


class ConvNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 26 * 26, 3))


class PositionNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))


class LossAttentionNormNet(PositionNet):
    pass


@pytest.mark.parametrize("net", [DropoutNet, ConvNet, PositionNet, LossAttentionNormNet])
def test_a_network_that_is_called_after_a_part_is_not_one(net: type[nn.Module]) -> None:
    assert laws.kinds_of(net()) == ["classifier", "initialization"]


class ConvBlock(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 4, 3), nn.ReLU())


def test_a_block_with_an_activation_is_not_a_convolution() -> None:
    with pytest.raises(UsageError, match="do not say which laws"):
        laws.kinds_of(ConvBlock())


def test_examples_that_are_given_are_used() -> None:
    found = dc.check((nn.LayerNorm(5), torch.randn(7, 3, 5)))
    assert all(outcome.holds for outcome in found)
    assert "batches of 2, 3, 6" in " ".join(outcome.detail for outcome in found)
    losses = dc.check((nn.CrossEntropyLoss(), (torch.randn(4, 3), torch.tensor([0, 2, 1, 1]))))
    assert len(losses) == 6
    assert all(outcome.holds for outcome in losses)


@pytest.mark.parametrize(
    ("kind", "module", "batch", "words"),
    [
        ("normalization", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "a normalization layer gives"),
        ("dropout", nn.LSTM(3, 4), Batch(torch.zeros(4, 2, 3)), "a dropout layer gives"),
        ("convolution", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "a convolution gives"),
        ("positions", nn.LSTM(3, 4), Batch(torch.zeros(4, 2, 3)), "a position encoding gives"),
        ("loss", nn.MSELoss(), Batch(torch.zeros(4, 3)), "a loss gives a number"),
        ("activation", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "an activation gives"),
        ("recurrent", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "a recurrent layer gives"),
        ("transform", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "an invertible transform gives"),
        ("optimizer", nn.Linear(3, 2), Batch(torch.zeros(4, 3)), "an optimizer is a class"),
        ("initialization", nn.ReLU(), Batch(torch.zeros(4, 3)), "has no linear layer"),
    ],
)
def test_what_is_not_of_a_kind_is_refused(kind: str, module: nn.Module, batch: Batch, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        laws.check((module, batch), kind)


def test_a_module_is_left_as_it_was() -> None:
    layer = nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    mode, state = layer.training, torch.get_rng_state()
    dc.check(layer)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.training == mode
    assert torch.equal(torch.get_rng_state(), state)


def test_all_kinds_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "laws.md").read_text(encoding="utf-8")
    assert {*PARTS, "initialization"} <= set(laws.KINDS)
    for kind in laws.KINDS:
        assert f"`{kind}`" in text, f"docs/laws.md does not mention {kind}"


def test_labels_are_kept() -> None:
    batch = EXAMPLES["loss"](nn.CrossEntropyLoss())
    assert isinstance(batch, Labeled)
    assert not batch.y.is_floating_point()
