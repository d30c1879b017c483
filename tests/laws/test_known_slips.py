"""Formulas that are often printed wrong: each slip is planted as a mutant, and the check of the formula sees it.

A slip has a key, the wrong form and the right one, and where the right one stands. Most are caught by a public law on a
module that has the slip, while its healthy twin keeps the law; the kind of a part is found without being named. Where a
formula belongs to no module, the function is compared with what it must compute. A few slips are words, with no number
that they would change, and say why they have no mutant.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import kl_divergence
from torch.nn.functional import conv1d, conv2d, pad, softplus

from deepcanon import laws
from deepcanon.core import Batch, Graph, LikelihoodKind, Terms
from deepcanon.core.graph_spectrum import Spectrum, smallest_eigenpairs
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.insights import filters, lipschitz
from deepcanon.laws.kinds import EXAMPLES, PARTS
from deepcanon.laws.target import target_of
from deepcanon.methods.pruning import Pruning
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.adversarial.wgan import WGAN
from deepcanon.models.autoregressive.nade import NADE
from deepcanon.models.diffusion.ddpm import DDPM
from deepcanon.models.energy.gaussian_rbm import GaussianRBM
from deepcanon.models.energy.rbm import RBM
from deepcanon.models.feedforward.bump_network import BumpNetwork
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.feedforward.tower_network import TowerNetwork
from deepcanon.models.flows.realnvp import RealNVP
from deepcanon.models.scores.score_matching import ScoreMatching
from deepcanon.models.variational.conditional_vae import ConditionalVAE
from deepcanon.models.variational.flow_vae import FlowVAE
from deepcanon.models.variational.vae import VAE
from deepcanon.nn import InvertibleConv1x1, MultiHeadAttention
from deepcanon.tensor import manual
from deepcanon.tensor.layout import Layout, positions
from deepcanon.train.observers import Watch

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Slip:
    """A formula that is printed wrong: a healthy form, the mutant, and the check that tells them apart."""

    key: str
    wrong: str
    right: str
    source: str
    healthy: Any = None
    mutant: Any = None
    check: Check | None = None
    reason: str = ""
    """Why it has no mutant."""


class Held:
    """Whether a thing keeps one law of a kind; of a part, the kind is also found without being named."""

    def __init__(self, kind: str, law: str) -> None:
        self.kind, self.law = kind, law

    def __call__(self, thing: Any) -> bool:
        torch.manual_seed(0)
        module, batch = target_of(thing)
        if batch is None:
            batch = EXAMPLES[self.kind](module)
        if self.kind in (*PARTS, "initialization"):
            assert self.kind in laws.kinds_of((module, batch) if self.kind == "initialization" else module)
        law = getattr(importlib.import_module(f"deepcanon.laws.{self.kind}"), self.law)
        outcome = law(module, batch)
        assert outcome is not None, "the law does not apply"
        return bool(outcome.holds)


# attention


class Attention(nn.Module):
    """A single head in the open; its values may be wider than its keys."""

    def width(self, q: Tensor, v: Tensor) -> int:
        return q.shape[-1]

    def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -torch.inf)

    def shares(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.softmax(-1)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        scores = query @ key.mT / self.width(query, value) ** 0.5
        return self.shares(self.hidden(scores, mask), mask) @ value


class ScaledByTheValues(Attention):
    def width(self, q: Tensor, v: Tensor) -> int:
        return v.shape[-1]


class Unscaled(Attention):
    def width(self, q: Tensor, v: Tensor) -> int:
        return 1


class MaskTimesInfinity(Attention):
    def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores * torch.where(mask, 1.0, -torch.inf)


class MaskTimesZero(Attention):
    def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores * mask


class MaskAfterSoftmax(Attention):
    def hidden(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores

    def shares(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.softmax(-1) * mask

    def weights(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        return self.shares(query @ key.mT, mask).unsqueeze(1)


class Weights(Attention):
    def weights(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        return self.hidden(query @ key.mT, mask).softmax(-1).unsqueeze(1)


class TokensToZero(Attention):
    """The masked tokens are set to zero, and still get a share of the attention."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        seen = mask.unsqueeze(-1)
        scores = torch.einsum("btd,btsd->bts", query, key.unsqueeze(1) * seen) / query.shape[-1] ** 0.5
        return torch.einsum("bts,btsd->btd", scores.softmax(-1), value.unsqueeze(1) * seen)


class SplitAttention(nn.Module):
    """Two heads, each of which gets half of the features."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_dim = 8
        self.maps = nn.ModuleList(nn.Linear(4, 12) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        parts = [layer(half).chunk(3, -1) for layer, half in zip(self.maps, x.chunk(2, -1), strict=True)]
        q, k, v = (torch.stack([part[i] for part in parts], 1) for i in range(3))
        output: Tensor = (q @ k.mT / 2).softmax(-1) @ v
        return output.transpose(1, 2).flatten(2)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    state = k.mT @ v  # the sum of phi(k) v'
    return q @ state / (q @ k.sum(-2).unsqueeze(-1))


def linear_attention_by_elements(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    state = (k * v).sum(-2, keepdim=True)
    return q * state / (q @ k.sum(-2).unsqueeze(-1))


def is_linear_attention(attend: Callable[..., Tensor]) -> bool:
    q, k, v = torch.rand(3, 5, 4, generator=Generator().manual_seed(0)).unbind(0)
    weights = q @ k.mT
    return bool(torch.allclose(attend(q, k, v), weights / weights.sum(-1, keepdim=True) @ v))


# positions


class Sinusoids(nn.Module):
    first, by_component = 0, False

    def forward(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        j = torch.arange(width) if self.by_component else torch.arange(width) // 2
        angle = torch.arange(x.shape[1]).unsqueeze(1) * 10_000.0 ** (-2 * (j + self.first) / width)
        return x + torch.where(torch.arange(width) % 2 == 0, angle.sin(), angle.cos())


class SinusoidsFromOne(Sinusoids):
    first = 1


class SinusoidsByComponent(Sinusoids):
    by_component = True


class Concatenated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.cat([x, r], -1))
        return output


class Added(Concatenated):
    """w_x x + w_r r as w (x + r)."""

    def forward(self, x: Tensor, r: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.cat([x + r, x + r], -1))
        return output


def tells_values_from_positions(make: Callable[[], nn.Module]) -> bool:
    x, r = torch.randn(2, 3, 4, generator=Generator().manual_seed(0)).unbind(0)
    layer = make()
    return not torch.allclose(layer(x, r), layer(r, x))


# normalization


class BatchNormalization(nn.Module):
    """The batch normalization of vectors in the open."""

    def __init__(self, features: int = 4) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))
        self.eps = 1e-5

    mean: Tensor
    running_var: Tensor

    def kept(self, variance: Tensor) -> Tensor:
        return torch.lerp(self.running_var, variance, 0.1)

    def gain(self) -> Tensor:
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.mean, self.running_var
        if self.training:
            mean, variance = x.mean(0), x.var(0, correction=0)
            with torch.no_grad():
                self.mean.lerp_(mean.to(self.mean), 0.1)
                self.running_var.copy_(self.kept(x.var(0)))
        return self.gain() * (x - mean) / (variance + self.eps).sqrt() + self.bias


class AveragesDeviations(BatchNormalization):
    def kept(self, variance: Tensor) -> Tensor:
        return torch.lerp(self.running_var.sqrt(), variance.sqrt(), 0.1).square()


class GainIsTheVariance(BatchNormalization):
    def gain(self) -> Tensor:
        return self.weight.sqrt()


class GainOfExamples(BatchNormalization):
    """One gain and shift for each example of a batch of six."""

    def __init__(self) -> None:
        super().__init__(4)
        self.weight, self.bias = nn.Parameter(torch.ones(6, 1)), nn.Parameter(torch.zeros(6, 1))


class LayerNormalization(nn.Module):
    eps = 1e-5

    def size(self, x: Tensor) -> Tensor:
        return (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / self.size(x)


class RootOfTheDeviation(LayerNormalization):
    def size(self, x: Tensor) -> Tensor:
        return (x.std(-1, correction=0, keepdim=True) + self.eps).sqrt()


# dropout and initialization


class Dropout(nn.Module):
    p = 0.5

    def kept(self, x: Tensor) -> Tensor:
        return torch.rand_like(x) >= self.p

    def test(self, x: Tensor) -> Tensor:
        return x * (1 - self.p)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.kept(x) if self.training else self.test(x)


class TimesTheDropped(Dropout):
    def test(self, x: Tensor) -> Tensor:
        return x * self.p


class KeepsWithTheProbability(Dropout):
    """The share to zero out is taken for the one to keep."""

    def kept(self, x: Tensor) -> Tensor:
        return torch.rand_like(x) < self.p

    def test(self, x: Tensor) -> Tensor:
        return x * self.p


class DropoutLinear(nn.Module):
    p = 0.4

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def test(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer((1 - self.p) * x)
        return output

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x * (torch.rand_like(x) >= self.p)) if self.training else self.test(x)
        return output


class LosesTheBias(DropoutLinear):
    def test(self, x: Tensor) -> Tensor:
        output: Tensor = (1 - self.p) * self.layer(x)
        return output


def he(numerator: float) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=math.sqrt(numerator / layer.in_features))
    return net


def glorot(bound: Callable[[int, int], float]) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.Linear(48, 24)
    nn.init.uniform_(layer.weight, -bound(48, 24), bound(48, 24))
    net = nn.Sequential(layer)
    net.initialization = "xavier_uniform"  # type: ignore[assignment]
    return net


# convolutions


class Conv(nn.Conv1d):
    def __init__(self, **options: Any) -> None:
        super().__init__(2, 3, 3, **options)


class ZerosBetweenTaps(Conv):
    """The dilation is taken for the number of zeros between two taps."""

    def forward(self, x: Tensor) -> Tensor:
        return conv1d(x, self.weight, self.bias, dilation=self.dilation[0] + 1)


class CalledSame(Conv):
    """Called "same", and computed without padding."""

    def forward(self, x: Tensor) -> Tensor:
        return conv1d(x, self.weight, self.bias)


class Flipped(Conv):
    def forward(self, x: Tensor) -> Tensor:
        return conv1d(x, self.weight.flip(-1), self.bias)


class LocalBiasConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2, 3, 3))
        self.bias = nn.Parameter(torch.randn(3, 1, 1))

    def place(self, y: Tensor) -> Tensor:
        return self.bias

    def forward(self, x: Tensor) -> Tensor:
        y = conv2d(x, self.weight)
        return y + self.place(y)


class BiasOfThePlace(LocalBiasConv):
    """b_fij, another one at each position."""

    def place(self, y: Tensor) -> Tensor:
        return self.bias * torch.linspace(1, 2, y.shape[-1])


class SumConv(nn.Module):
    """A convolution of sequences written as its sum, with the taps from -1 to 1."""

    kernel_size = 3
    padding = "same"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 2, 3))

    def taps(self, i: int) -> list[tuple[int, int]]:
        """Offsets of the input, and the taps of the kernel that belong to them."""
        return [(tap - 1, tap) for tap in range(3)]

    def forward(self, x: Tensor) -> Tensor:
        padded = pad(x, (64, 64))
        rows = [
            torch.stack([padded[..., 64 + i + at] @ self.weight[..., tap % 3].T for at, tap in self.taps(i)]).sum(0)
            for i in range(x.shape[-1])
        ]
        return torch.stack(rows, -1)


class BoundsMoveAlong(SumConv):
    """The sum from i - k to k."""

    def taps(self, i: int) -> list[tuple[int, int]]:
        return [(tap, tap + 1) for tap in range(i - 1, 2)] or [(64, 0)]  # an empty sum: zeros of the padding


class KernelOfThePlace(SumConv):
    """g(i + j) x_j in place of g(j) x_{i + j}."""

    def taps(self, i: int) -> list[tuple[int, int]]:
        return [(tap - 1, tap + i) for tap in range(3)]


# recurrent layers


class OpenLSTM(nn.LSTM):
    """An LSTM step by step, for its output and what drives its gates to be changed."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self) -> None:
        super().__init__(3, 4)

    def driving(self, h: Tensor, c: Tensor) -> Tensor:
        return h

    def shown(self, h: Tensor, c: Tensor) -> Tensor:
        return h

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        h, c = (part[0] for part in state) if state is not None else (x.new_zeros(x.shape[1], 4),) * 2
        outputs = []
        for row in x:
            drive = row @ self.weight_ih_l0.T + self.bias_ih_l0 + self.bias_hh_l0
            i, f, g, o = (drive + self.driving(h, c) @ self.weight_hh_l0.T).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(self.shown(h, c))
        return torch.stack(outputs), (h.unsqueeze(0), c.unsqueeze(0))


class DrivenByTheCell(OpenLSTM):
    def driving(self, h: Tensor, c: Tensor) -> Tensor:
        return c


class ShowsTheCell(OpenLSTM):
    def shown(self, h: Tensor, c: Tensor) -> Tensor:
        return c


class OpenGRU(nn.GRU):
    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self) -> None:
        super().__init__(3, 4)

    def recurrent(self, r: Tensor, h: Tensor, u: Tensor, b: Tensor) -> Tensor:
        return r * (h @ u.T + b)

    def forward(self, x: Tensor, h: Any = None) -> Any:  # type: ignore[override]
        h = x.new_zeros(x.shape[1], 4) if h is None else h[0]
        *_, u = self.weight_hh_l0.chunk(3)
        *_, b = self.bias_hh_l0.chunk(3)
        outputs = []
        for row in x:
            drive, back = row @ self.weight_ih_l0.T + self.bias_ih_l0, h @ self.weight_hh_l0.T + self.bias_hh_l0
            r, z = ((drive[:, i : i + 4] + back[:, i : i + 4]).sigmoid() for i in (0, 4))
            n = (drive[:, 8:] + self.recurrent(r, h, u, b)).tanh()
            h = (1 - z) * n + z * h
            outputs.append(h)
        return torch.stack(outputs), h.unsqueeze(0)


class ResetsFirst(OpenGRU):
    def recurrent(self, r: Tensor, h: Tensor, u: Tensor, b: Tensor) -> Tensor:
        return (r * h) @ u.T + b


# losses, activations, gradients


class NLLLoss(nn.Module):
    sign = -1.0

    def forward(self, log: Tensor, y: Tensor) -> Tensor:
        return self.sign * log.gather(1, y.unsqueeze(1)).mean()


class MinusOutside(NLLLoss):
    """argmax of the product as argmin of the sum of the logarithms."""

    sign = 1.0


class HalfSquareLoss(nn.Module):
    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return (y - z).square().sum() / (2 * len(y))


class OneExampleLoss(HalfSquareLoss):
    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return (y - z)[0].square().sum() / (2 * len(y))


class LeakyReLU(nn.Module):
    alpha = 0.1

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, self.alpha * x)


class LargerOfTwoLeakyReLU(LeakyReLU):
    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(self.alpha * x, x)


class _Product(torch.autograd.Function):
    """y = w x, with the derivatives in their places or swapped."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, swapped: bool) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.swapped = swapped
        return w * x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grads[0] * (x if ctx.swapped else w), (grads[0] * (w if ctx.swapped else x)).sum(), None


class Scaling(nn.Module):
    swapped = False

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.7))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Product.apply(x, self.w, self.swapped)  # type: ignore[no-untyped-call]
        return output


class SwapsDerivatives(Scaling):
    swapped = True


class _Affine(torch.autograd.Function):
    """W x for rows x, whose gradient is multiplied by the Jacobian, transposed or not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, transposed: bool) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.transposed = transposed
        return x @ w.T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grads[0] @ (w if ctx.transposed else w.T), grads[0].T @ x, None


class Two(nn.Module):
    transposed = True

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Affine.apply(self.first(x).tanh(), self.second, self.transposed)  # type: ignore[no-untyped-call]
        return output


class InputsInRows(Two):
    transposed = False


class Logits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output


class OutputsActivated(Logits):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(-1)


# optimizers


class SGD(torch.optim.Optimizer):
    def __init__(self, parameters: Any, lr: float = 0.1, momentum: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    def change(self, gradient: Tensor, lr: float) -> Tensor:
        return lr * gradient

    def step(self, closure: Any = None) -> Any:
        closure()
        with torch.no_grad():
            for group in self.param_groups:
                for point in group["params"]:
                    v = self.state[point].setdefault("v", torch.zeros_like(point))
                    v.mul_(group["momentum"]).sub_(self.change(point.grad, group["lr"]))
                    point.add_(v)


class WithoutARate(SGD):
    def change(self, gradient: Tensor, lr: float) -> Tensor:
        return gradient


class GradientTwice(SGD):
    """v <- mu v - eps g grad J."""

    def change(self, gradient: Tensor, lr: float) -> Tensor:
        return lr * gradient * gradient


# graphs


class Neighbors(nn.Module):
    in_features = 3

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h[source]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        return h + torch.zeros_like(h).index_add(0, edge_index[1], self.message(h, *edge_index))


class OwnState(Neighbors):
    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h[target]


class InvariantForEquivariant(Neighbors):
    """The output does not follow the order of the nodes: rows in order of size."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = super().forward(x, edge_index)
        return rows[rows.sum(1).argsort()]


class RowsForColumns(Spectrum):
    def transform(self, x: Tensor) -> Tensor:
        return self.vectors @ x


@cache
def ring() -> Graph:
    edges = torch.tensor([[i, (i + 1) % 6] for i in range(6)] + [[0, 3]]).T
    return Graph(torch.cat([edges, edges.flip(0)], 1), 6)


def spectrum(cls: type[Spectrum]) -> Spectrum:
    found = smallest_eigenpairs(ring().operator("laplacian"), 6)
    return cls(found.values, found.vectors)


def constants_have_frequency_zero(cls: type[Spectrum]) -> bool:
    found = spectrum(cls)
    x = torch.ones(6, 1, dtype=found.vectors.dtype)
    coefficients = found.transform(x)
    return bool(torch.allclose(found.inverse(coefficients), x) and coefficients[1:].abs().max() < 1e-6)


def trace_is(edge_weights: float) -> bool:
    dense = ring().operator("laplacian") @ torch.eye(6)
    return bool(torch.isclose(dense.diagonal().sum(), torch.tensor(edge_weights * 7)))


# models


class ConsistencyTerms(DDPM):
    """E KL(q(x_t | x_{t-1}) || p(x_t | x_{t+1})), with x_t drawn without regard to x_{t+1}."""

    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        rows = len(x)
        times = [torch.full((rows,), t) for t in range(self.timesteps + 1)]
        path = [x]
        for t in range(1, self.timesteps + 1):
            path.append(self.step(path[-1], times[t]).sample())
        total: Tensor = self.reverse(path[1], times[1]).log_prob(x)
        total = total - kl_divergence(self.step(path[-2], times[-1]), self.prior().expand(torch.Size([rows])))
        for t in range(1, self.timesteps):
            total = total - kl_divergence(self.step(path[t - 1], times[t]), self.reverse(path[t + 1], times[t + 1]))
        return total


class TimesItsSlope(WGAN):
    """The difference of a critic of slope K is K times the distance."""

    def wasserstein(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.discriminate(x).mean() - self.discriminate(y).mean()).abs() * 1e3


class StillMinimax(GAN):
    """The modified cost of the generator is the old one."""

    def loss(self, batch: Batch) -> Terms:
        return {"generator": -softplus(self.discriminate(self._sample(len(batch)))).mean()}


def losing_generator_learns(cls: type[GAN]) -> bool:
    """Where every sample is recognized, the gradient of the generator does not vanish."""
    torch.manual_seed(0)
    model, batch = cls.example()
    with torch.no_grad():
        last = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
        assert last.out_features == 1
        last.bias.fill_(-20)
    sum(model.loss(batch).values()).backward()  # type: ignore[union-attr]
    return max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None) > 1e-4


class ExpOfPlusEnergy(RBM):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        constant = self.exact_log_partition()
        assert constant is not None
        return self.energy(x) - constant


class SigmoidOfMinus(RBM):
    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        return 1 - super().transition(x, beta, generator)


class BiasesSwapped(RBM):
    @classmethod
    def example(cls) -> Any:
        return cls(features=6, units=6, chains=16), super().example()[1]

    def _free_energy(self, x: Tensor, up: Tensor) -> Tensor:
        return -(x @ self.hidden_bias) - softplus(up - self.hidden_bias + self.visible_bias).sum(-1)


class OppositeSign(RBM):
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        terms = super().gradient(batch)
        for parameter in self.parameters():
            assert parameter.grad is not None
            parameter.grad = -parameter.grad
        return terms


class SumOverTheChains(RBM):
    def loss(self, batch: Batch) -> Terms:
        return {"contrastive_divergence": self.energy(batch.x).mean() - self.energy(self.negatives(batch.x)).sum()}


class OpensDownwards(GaussianRBM):
    """-x'x / 2, which cannot be normalized."""

    def _base_measure(self, v: Tensor) -> Tensor:
        return -super()._base_measure(v)


class SeesItself(NADE):
    def logits(self, x: Tensor) -> Tensor:
        a = self.hidden_bias + torch.cumsum(x.unsqueeze(2) * self.weight, 1)
        return (a.sigmoid() * self.readout).sum(-1) + self.visible_bias


class EntropyTimesTheSize(VAE):
    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, _ = super().bound(x)
        mean, log_scale = self._encoded(x).chunk(2, -1)
        entropy = mean.shape[-1] / 2 * (1 + 2 * log_scale).sum(-1)
        return reconstruction, 0.5 * (mean.square() + (2 * log_scale).exp()).sum(-1) - entropy


class AnotherNumberOfDraws(VAE):
    """The mean over L draws is divided by another number."""

    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        return super()._importance_bound(x, samples) + math.log(samples)


class AddsTheDivergence(ConditionalVAE):
    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reconstruction, divergence = super().bound(x)
        return reconstruction, -divergence


class FreeEnergyForBound(FlowVAE):
    """E[log q - log p] is given out as the bound, of which it is the negative."""

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return -super()._estimate(x, samples, generator)


class CalledApproximate(RealNVP):
    likelihood_kind: LikelihoodKind = "estimate"

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self._log_prob(x)


class Coupling(nn.Module):
    """An affine coupling z'' = F(x') x'' + H(x')."""

    def __init__(self) -> None:
        super().__init__()
        self.in_features = 4
        self.net = nn.Linear(2, 4)

    def inverted(self, z: Tensor, s: Tensor, h: Tensor) -> Tensor:
        return (z - h) * (-s).exp()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, -1)
        s, h = self.net(a).tanh().chunk(2, -1)
        return torch.cat([a, b * s.exp() + h], -1), s.sum(-1)

    def inverse(self, z: Tensor) -> Tensor:
        a, b = z.chunk(2, -1)
        s, h = self.net(a).tanh().chunk(2, -1)
        return torch.cat([a, self.inverted(b, s, h)], -1)


class DividesThenSubtracts(Coupling):
    def inverted(self, z: Tensor, s: Tensor, h: Tensor) -> Tensor:
        return z * (-s).exp() - h


class OnePixel(InvertibleConv1x1):
    """log |det W| once, and not for each of the pixels."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = super().forward(x)
        return z, log_det / x.shape[2:].numel()


class GradientOfTheDensity(ScoreMatching):
    def score(self, x: Tensor) -> Tensor:
        return super().score(x) * torch.exp(-0.5 * x.square().sum(-1, keepdim=True))


def denoising(cls: type[ScoreMatching]) -> Any:
    torch.manual_seed(0)
    return cls(features=2, hidden=(16,), objective="denoising", noise=0.3), ScoreMatching.example()[1]


# formulas without a module


def counts_weights(count: Callable[[int, int, int, int], int]) -> bool:
    """Whether a formula gives the parameters of an MLP with K hidden layers of width D."""
    sizes = [(3, 5, 1, 2), (4, 6, 3, 2), (2, 7, 4, 3)]
    made = [MLP(features=a, targets=c, hidden=(d,) * k) for a, d, k, c in sizes]
    return [count(*size) for size in sizes] == [sum(p.numel() for p in net.parameters()) for net in made]


def is_fastest(rate: Callable[[float, float], float]) -> bool:
    """Whether no other fixed step contracts a quadratic with these curvatures faster."""
    low, high = 0.3, 2.0
    factor = [max(abs(1 - eta * low), abs(1 - eta * high)) for eta in np.linspace(0.01, 1, 500)]
    eta = rate(low, high)
    return bool(max(abs(1 - eta * low), abs(1 - eta * high)) <= min(factor) + 1e-9)


def codes_add_up(decode: Callable[[Tensor], Tensor]) -> bool:
    """Two threshold units give four codes b + sum z w, of which opposite ones have the same sum."""
    a, b, c, d = (decode(torch.tensor(z)) for z in ([0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]))
    return bool(torch.allclose(a + b, c + d))


def additive_codes(z: Tensor) -> Tensor:
    return torch.tensor([0.5, -1.0]) + z @ torch.tensor([[1.0, 2.0], [-3.0, 0.7]])


def free_centroids(z: Tensor) -> Tensor:
    return torch.tensor([[0.0, 0.0], [1.0, 3.0], [2.0, -1.0], [5.0, 5.0]])[int(2 * z[0] + z[1])]


def stays_below_all_patterns(regions: Callable[[int, int, int], int]) -> bool:
    """A number of linear regions of L layers of Z units is at most 2 to the number of units."""
    sizes = [(4, 2, 2), (3, 2, 3), (6, 2, 2), (5, 2, 4)]
    return all(regions(z, d, layers) <= 2 ** (z * layers) for z, d, layers in sizes)


def by_quotients(z: int, d: int, layers: int) -> int:
    return int((z // d) ** ((layers - 1) * d)) * sum(math.comb(z, j) for j in range(d + 1))


def by_binomials(z: int, d: int, layers: int) -> int:
    return int(math.comb(z, d) ** ((layers - 1) * d) * z**d)


def with_slopes_of(layer_of: Callable[[int, int], int]) -> Callable[..., Any]:
    """Backpropagation with the slope of another layer's activation."""

    def backpropagate(layers: Any, x: Any, target: Any, cost: Any) -> Any:
        zs, activations = manual.forward(layers, x)
        back, slopes = cost.slope(activations[-1], target), []
        for n in reversed(range(len(layers))):
            delta = back * layers[layer_of(n, len(layers))].activation.slope(zs[n])
            slopes.append(manual.Slopes(delta, delta.T @ activations[n], delta.sum(0)))
            back = delta @ layers[n].w
        return cost.value(activations[-1], target), slopes[::-1]

    return backpropagate


def agrees_with_autograd(backpropagate: Callable[..., Any]) -> bool:
    random = np.random.default_rng(0)
    tanh = manual.Activation(np.tanh, lambda z: 1 - np.tanh(z) ** 2)
    plain = manual.Activation(lambda z: z, np.ones_like)
    layers = [
        manual.Layer(random.normal(size=(4, 3)), np.zeros(4), tanh),
        manual.Layer(random.normal(size=(5, 4)), np.zeros(5), tanh),
        manual.Layer(random.normal(size=(2, 5)), np.zeros(2), plain),
    ]
    x, y = random.normal(size=(6, 3)), random.normal(size=(6, 2))
    cost = manual.Cost(lambda a, t: 0.5 * ((a - t) ** 2).sum(), lambda a, t: a - t)
    _, slopes = backpropagate(layers, x, y, cost)
    weights = [torch.tensor(layer.w, requires_grad=True) for layer in layers]
    h = torch.tensor(x)
    for i, w in enumerate(weights):
        h = h @ w.T if i == 2 else (h @ w.T).tanh()
    (0.5 * (h - torch.tensor(y)).square().sum()).backward()
    return all(
        torch.allclose(torch.tensor(found.w), torch.as_tensor(w.grad)) for found, w in zip(slopes, weights, strict=True)
    )


def has_the_softmax_gradient(shares: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether draws from q, weighted, have the gradient of log sum exp in the mean: the softmax."""
    eta, q = torch.tensor([2.0, -1.0, 0.5, 0.0]), torch.full((4,), 0.25)
    return bool(torch.allclose(shares(eta, q), eta.softmax(0)))


def weighted_draws(eta: Tensor, q: Tensor) -> Tensor:
    weights = eta.exp() / q
    return q * weights / (q * weights).sum()


ENDS = {"": 0.1, "a": 0.3, "b": 0.5, "ab": 1.0, "aa": 1.0, "ba": 1.0, "bb": 1.0}
"""The probability that a text of two tokens ends here; else a or b follows with probability 1/2 each."""


def prefix(text: str) -> float:
    """The probability that a text begins so."""
    return math.prod((1 - ENDS[text[:i]]) / 2 for i in range(len(text)))


def whole(text: str) -> float:
    """The probability of a text, with its end."""
    return prefix(text) * ENDS[text]


def continuations_sum_to_one(given: Callable[[str], float]) -> bool:
    return math.isclose(sum(whole(text) / given("a") for text in ENDS if text.startswith("a")), 1)


def is_partition_of_unity(units: Callable[[BumpNetwork, Tensor], Tensor]) -> bool:
    x = torch.linspace(0, 1, 41).unsqueeze(1)
    net = BumpNetwork(features=1, targets=1, cells=5, step="logistic", steepness=200.0)
    return bool(torch.allclose(units(net, x).sum(1), torch.ones(41), atol=1e-4))


def towers(threshold: Callable[[TowerNetwork], float]) -> Callable[[], Tensor]:
    """The plain towers of the plane at the centers of their cells."""

    def at_centers() -> Tensor:
        net = TowerNetwork(features=2, targets=1, cells=3, towers="plain")
        z = (net.centers().unsqueeze(1) - net.centers()) / net.widths()
        k = net.steepness
        bumps = (k * (z + 0.5)).sigmoid() - (k * (z - 0.5)).sigmoid()
        return (k * (bumps.sum(-1) - threshold(net))).sigmoid()

    return at_centers


def stand_on_their_cells(at_centers: Callable[[], Tensor]) -> bool:
    library = TowerNetwork(features=2, targets=1, cells=3, towers="plain")
    found = at_centers()
    return bool(
        torch.allclose(found, torch.eye(9), atol=1e-3) and torch.allclose(found, library.units(library.centers()))
    )


def finds_elements(place: Callable[[Layout], list[int]]) -> bool:
    array = np.arange(6).reshape(2, 3).T
    layout = Layout(array.shape, tuple(stride // array.itemsize for stride in array.strides), 0)
    return place(layout) == array.flatten().tolist()


def from_one(layout: Layout) -> list[int]:
    """Offsets by indices that are counted from 1."""
    return [
        sum((i + 1) * stride for i, stride in zip(index, layout.strides, strict=True))
        for index in itertools.product(*map(range, layout.shape))
    ]


def is_attained(constant: Callable[[nn.Module, Batch], Any]) -> bool:
    """Whether a Lipschitz constant is at most the largest slope over all patterns of active units."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2))
    first, last = (net.get_parameter(name).detach() for name in ("0.weight", "2.weight"))
    patterns = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)))
    most = torch.linalg.matrix_norm(last @ (patterns.unsqueeze(-1) * first), 2).max()
    x = torch.randn(64, 2, generator=Generator().manual_seed(0))
    return float(torch.as_tensor(constant(net, Batch(x))).max()) <= float(most) * (1 + 1e-5)


class StopsWhenBetter(Watch):
    """Stops where the validation loss falls."""

    def epoch(self, trainer: Any, valid: dict[str, float]) -> None:
        super().epoch(trainer, {name: -value for name, value in valid.items()})


def stops_when_worse(cls: type[Watch]) -> bool:
    """Whether training goes on while the validation loss falls, and ends after it has risen twice."""
    model, _ = ToyClassifier.example()
    stopped: list[int] = []
    trainer: Any = SimpleNamespace(model=model, step=0, settled=0, stop=lambda _: stopped.append(trainer.step))
    watch = cls("loss", 2)
    for trainer.step, loss in enumerate([4.0, 3.0, 2.0, 1.0, 1.5, 1.7]):
        watch.epoch(trainer, {"loss": loss})
    return stopped == [5]


class KeepsTrainedWeights(Pruning[Any]):
    """m . theta, the weights after training."""

    def _cut(self, number: int, batch: Any) -> None:
        restart, self.restart = self.restart, "none"
        super()._cut(number, batch)
        self.restart = restart


def rewinds(cls: Any) -> bool:
    """Whether what a cut leaves are the initial weights."""
    torch.manual_seed(0)
    inner, batch = ToyClassifier.example()
    model = cls(inner, sparsity=0.5)
    model.prepare([batch])
    before = {name: value.clone() for name, value in inner.state_dict().items()}
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter.add_(torch.randn_like(parameter))
    model._cut(1, batch)
    kept = {name: value != 0 for name, value in inner.state_dict().items()}
    return all(torch.equal(value[kept[name]], before[name][kept[name]]) for name, value in inner.state_dict().items())


def of_the_update(before: Tensor, after: Tensor, gradient: Tensor) -> Tensor:
    return ((after - before).square().sum() / before.square().sum()).sqrt()


def is_share_of_the_step(ratio: Callable[[Tensor, Tensor, Tensor], Tensor]) -> bool:
    """Whether a tenfold rate makes a tenfold ratio."""
    before, gradient = torch.tensor([3.0, 4.0]), torch.tensor([0.5, -1.0])
    small, large = (ratio(before, before - rate * gradient, gradient) for rate in (0.01, 0.1))
    return bool(torch.isclose(large, 10 * small, rtol=1e-3))


def changes_nothing(kernel: Callable[[], Tensor]) -> bool:
    x = torch.randn(1, 1, 8, 8, generator=Generator().manual_seed(0), dtype=torch.float64)
    return bool(torch.allclose(filters.apply(x, kernel()), x))


VASWANI = "Vaswani et al., 2017, https://arxiv.org/abs/1706.03762"
IOFFE = "Ioffe and Szegedy, 2015, https://arxiv.org/abs/1502.03167"
SRIVASTAVA = "Srivastava et al., 2014, https://jmlr.org/papers/v15/srivastava14a.html"
GOODFELLOW = "Goodfellow et al., 2016, https://www.deeplearningbook.org"
HINTON = "Hinton, 2012, https://doi.org/10.1007/978-3-642-35289-8_32"
KINGMA = "Kingma and Welling, 2014, https://arxiv.org/abs/1312.6114"
DUMOULIN = "Dumoulin and Visin, 2016, https://arxiv.org/abs/1603.07285"
NIELSEN = "Nielsen, 2015, http://neuralnetworksanddeeplearning.com"
BATTAGLIA = "Battaglia et al., 2018, https://arxiv.org/abs/1806.01261"
HOCHREITER = "Hochreiter and Schmidhuber, 1997, https://doi.org/10.1162/neco.1997.9.8.1735"
BISHOP = "Bishop and Bishop, 2024, https://www.bishopbook.com"

scale = Held("attention", "scores_are_divided_by_the_root_of_the_key_width")
allowed = Held("attention", "a_query_attends_to_what_its_mask_allows")
normal = "normalization"

SLIPS = (
    Slip(
        "parameters-of-an-mlp",
        "K (D^2 + D) weights between K hidden layers",
        "(K - 1) (D^2 + D)",
        GOODFELLOW,
        lambda a, d, k, c: a * d + d + (k - 1) * (d * d + d) + d * c + c,
        lambda a, d, k, c: a * d + d + k * (d * d + d) + d * c + c,
        counts_weights,
    ),
    Slip(
        "likelihood-sign",
        "argmax prod p = -argmin sum log p",
        "argmin of -sum log p",
        GOODFELLOW,
        NLLLoss,
        MinusOutside,
        Held("loss", "the_truth_is_best"),
    ),
    Slip(
        "rate-of-sgd",
        "theta - gradient",
        "theta - eta gradient",
        GOODFELLOW,
        SGD,
        WithoutARate,
        Held("optimizer", "the_first_step_is_proportional_to_the_rate"),
    ),
    Slip(
        "he-variance",
        "sigma^2 = 4 / D_in for ReLU",
        "2 / D_in",
        "He et al., 2015, https://arxiv.org/abs/1502.01852",
        lambda: he(2),
        lambda: he(4),
        Held("initialization", "weights_do_not_amplify"),
    ),
    Slip(
        "dropout-at-test-time",
        "weights times the probability to drop",
        "times that to keep",
        SRIVASTAVA,
        Dropout,
        TimesTheDropped,
        Held("dropout", "training_keeps_the_mean_of_evaluation"),
    ),
    Slip(
        "dilation",
        "d zeros between two taps",
        "d - 1 zeros",
        DUMOULIN,
        lambda: Conv(dilation=2),
        lambda: ZerosBetweenTaps(dilation=2),
        Held("convolution", "taps_lie_a_dilation_apart"),
    ),
    Slip("scale-by-the-values", "q k / sqrt(d_v)", "q k / sqrt(d_k)", VASWANI, Attention, ScaledByTheValues, scale),
    Slip(
        "hadamard-example",
        "(1, 2) . (2, 4) = (2, 12)",
        "(2, 8)",
        GOODFELLOW,
        reason="a misprinted digit of a worked example: no formula is wrong",
    ),
    Slip(
        "cost-of-one-example",
        "|y - z|^2 / 2n",
        "the sum of it over the n examples",
        NIELSEN,
        HalfSquareLoss,
        OneExampleLoss,
        Held("loss", "repeated_examples_keep_the_mean"),
    ),
    Slip(
        "fastest-rate",
        "eta = 1 / lambda_max",
        "2 / (lambda_min + lambda_max)",
        "LeCun et al., 1998, https://doi.org/10.1007/3-540-49430-8_2",
        lambda low, high: 2 / (low + high),
        lambda low, high: 1 / high,
        is_fastest,
    ),
    Slip(
        "running-deviation",
        "the running mean of sigma",
        "of sigma^2",
        IOFFE,
        BatchNormalization,
        AveragesDeviations,
        Held(normal, "running_statistics_are_means_and_variances"),
    ),
    Slip(
        "added-for-concatenated",
        "w_x x + w_r r = w (x + r)",
        "W (x, r), with weights of their own",
        VASWANI,
        Concatenated,
        Added,
        tells_values_from_positions,
    ),
    Slip(
        "first-frequency",
        "10000^(-2i/D) from i = 1",
        "from i = 0",
        VASWANI,
        Sinusoids,
        SinusoidsFromOne,
        Held("positions", "the_first_frequency_is_one"),
    ),
    Slip(
        "mask-times-infinity",
        "scores times a mask with -inf",
        "plus one",
        VASWANI,
        Attention,
        MaskTimesInfinity,
        allowed,
    ),
    Slip(
        "threshold-units-as-k-means",
        "m threshold units are 2^m centroids",
        "2^m sums b + sum z w",
        "Coates et al., 2011, https://proceedings.mlr.press/v15/coates11a.html",
        additive_codes,
        free_centroids,
        codes_add_up,
    ),
    Slip(
        "regions-by-binomials",
        "binom(Z, D)^((L-1) D) Z^D",
        "floor(Z / D)^((L-1) D) sum_j binom(Z, j)",
        "Montufar et al., 2014, https://arxiv.org/abs/1402.1869",
        by_quotients,
        by_binomials,
        stays_below_all_patterns,
    ),
    Slip(
        "slope-of-the-last-layer",
        "delta_l with the slope of the last activation",
        "with that of layer l",
        "Rumelhart et al., 1986, https://doi.org/10.1038/323533a0",
        manual.backpropagate,
        with_slopes_of(lambda _, count: count - 1),
        agrees_with_autograd,
    ),
    Slip(
        "derivatives-of-a-product",
        "of w x: delta_x = x, delta_w = w",
        "delta_x = w, delta_w = x",
        GOODFELLOW,
        Scaling,
        SwapsDerivatives,
        Held("activation", "gradient_is_the_slope"),
    ),
    Slip(
        "jacobian",
        "inputs in rows: delta_in = J delta_out",
        "outputs in rows: J' delta_out",
        GOODFELLOW,
        Two,
        InputsInRows,
        Held("classifier", "gradient_is_the_slope"),
    ),
    Slip(
        "nesterov",
        "v <- mu v - eta g grad J",
        "v <- mu v - eta grad J",
        "Sutskever et al., 2013, https://proceedings.mlr.press/v28/sutskever13.html",
        SGD,
        GradientTwice,
        Held("optimizer", "steps_scale_as_gradients_or_not_at_all"),
    ),
    Slip(
        "gain-as-variance",
        "gamma is the new variance",
        "the new standard deviation",
        IOFFE,
        BatchNormalization,
        GainIsTheVariance,
        Held(normal, "gain_and_shift_act_linearly"),
    ),
    Slip(
        "root-of-the-deviation",
        "(x - mu) / sqrt(sigma)",
        "/ sqrt(sigma^2 + eps)",
        "Ba et al., 2016, https://arxiv.org/abs/1607.06450",
        LayerNormalization,
        RootOfTheDeviation,
        Held(normal, "outputs_are_standardized_values"),
    ),
    Slip(
        "uniform-negatives",
        "uniform draws for those of the softmax",
        "weighted by exp(eta) / q, normalized",
        "Bengio and Senecal, 2008, https://doi.org/10.1109/TNN.2007.912312",
        weighted_draws,
        lambda eta, q: q,
        has_the_softmax_gradient,
    ),
    Slip(
        "gates-of-the-cell",
        "gates are driven by the cell state",
        "by the hidden state and the input",
        HOCHREITER,
        OpenLSTM,
        DrivenByTheCell,
        Held("recurrent", "gates_read_the_hidden_state"),
    ),
    Slip(
        "prefix-with-its-end",
        "p(x | c) = p(cx) / p(c), with the end of c",
        "the probability to begin with c",
        "Bengio et al., 2003, https://www.jmlr.org/papers/v3/bengio03a.html",
        prefix,
        whole,
        continuations_sum_to_one,
    ),
    Slip(
        "equivariance",
        "the output does not change with the order",
        "it is permuted alike",
        BATTAGLIA,
        Neighbors,
        InvariantForEquivariant,
        Held("graph", "order_of_nodes_does_not_matter"),
    ),
    Slip(
        "valid-called-same",
        "n - k + 1 outputs",
        "n outputs",
        DUMOULIN,
        lambda: Conv(padding="same"),
        lambda: CalledSame(padding="same"),
        Held("convolution", "the_size_is_that_of_the_formula"),
    ),
    Slip(
        "trace-of-the-laplacian",
        "the sum of all edge weights",
        "twice that",
        "von Luxburg, 2007, https://arxiv.org/abs/0711.0189",
        2.0,
        1.0,
        trace_is,
    ),
    Slip(
        "message-of-oneself",
        "sum over u of h_v",
        "of h_u",
        BATTAGLIA,
        Neighbors,
        OwnState,
        Held("graph", "messages_follow_the_edges"),
    ),
    Slip(
        "rows-of-the-fourier-basis",
        "coefficients <x, Q_k,:>",
        "<x, Q_:,k>, and back by Q",
        "Shuman et al., 2013, https://arxiv.org/abs/1211.0053",
        Spectrum,
        RowsForColumns,
        constants_have_frequency_zero,
    ),
    Slip(
        "dropped-for-kept",
        "zero out the share to keep",
        "the share to drop",
        SRIVASTAVA,
        Dropout,
        KeepsWithTheProbability,
        Held("dropout", "the_share_of_zeros_is_the_probability"),
    ),
    Slip(
        "bounds-of-the-sum",
        "taps from i - k to k",
        "from -k to k",
        DUMOULIN,
        SumConv,
        BoundsMoveAlong,
        Held("convolution", "taps_lie_a_dilation_apart"),
    ),
    Slip(
        "kernel-of-the-place",
        "sum g(i + j) x_j",
        "sum g(j) x_(i + j)",
        "Cordonnier et al., 2020, https://arxiv.org/abs/1911.03584",
        SumConv,
        KernelOfThePlace,
        Held("convolution", "a_shifted_input_shifts_the_output"),
    ),
    Slip(
        "mask-times-zero", "causal scores times 0 and 1", "plus 0 and -inf", VASWANI, Attention, MaskTimesZero, allowed
    ),
    Slip(
        "linear-attention",
        "S = sum phi(k) v, by elements",
        "sum phi(k) v', a matrix",
        "Katharopoulos et al., 2020, https://arxiv.org/abs/2006.16236",
        linear_attention,
        linear_attention_by_elements,
        is_linear_attention,
    ),
    Slip(
        "reset-before-the-product",
        "(r . h) U",
        "r . (h U + b), as torch has it",
        "Cho et al., 2014, https://arxiv.org/abs/1406.1078",
        OpenGRU,
        ResetsFirst,
        Held("recurrent", "the_numbers_are_those_of_torch"),
    ),
    Slip(
        "consistency-terms",
        "E_q(x_t-1, x_t+1) KL(q(x_t | x_t-1) || p(x_t | x_t+1))",
        "E log p(x_t | x_t+1) / q(x_t | x_t-1)",
        "Luo, 2022, https://arxiv.org/abs/2208.11970",
        DDPM,
        ConsistencyTerms,
        Held("diffusion", "log_prob_is_the_evidence_lower_bound"),
    ),
    Slip(
        "lipschitz-of-the-critic",
        "sup over slopes of at most 1 is K W",
        "W; over slopes of at most K it is K W",
        "Arjovsky et al., 2017, https://arxiv.org/abs/1701.07875",
        WGAN,
        TimesItsSlope,
        Held("game", "critic_stays_below_the_earth_movers_distance"),
    ),
    Slip(
        "activated-outputs",
        "the activation also after the last layer",
        "logits, and a head apart",
        GOODFELLOW,
        Logits,
        OutputsActivated,
        Held("classifier", "logits_are_not_probabilities"),
    ),
    Slip(
        "half-bump",
        "(sigma - sigma) / 2 of logistic units",
        "sigma - sigma",
        NIELSEN,
        lambda net, x: net.units(x),
        lambda net, x: net.units(x) / 2,
        is_partition_of_unity,
    ),
    Slip(
        "threshold-of-a-tower",
        "the end of an interval",
        "n - 1/2",
        NIELSEN,
        towers(lambda net: net.features - 0.5),
        towers(lambda net: 2 / 3),
        stand_on_their_cells,
    ),
    Slip(
        "indices-from-one",
        "offset = strides . indices from 1",
        "from 0",
        "Harris et al., 2020, https://doi.org/10.1038/s41586-020-2649-2",
        positions,
        from_one,
        finds_elements,
    ),
    Slip(
        "product-of-norms",
        "the Lipschitz constant is the product",
        "at most the product",
        "Szegedy et al., 2014, https://arxiv.org/abs/1312.6199",
        lipschitz.local_constants,
        lipschitz.product_bound,
        is_attained,
    ),
    Slip(
        "glorot-bound",
        "U(+-1 / sqrt(N_in))",
        "U(+-sqrt(6 / (N_in + N_out)))",
        "Glorot and Bengio, 2010, https://proceedings.mlr.press/v9/glorot10a.html",
        lambda: glorot(lambda i, o: math.sqrt(6 / (i + o))),
        lambda: glorot(lambda i, o: 1 / math.sqrt(i)),
        Held("initialization", "variance_is_that_of_the_rule"),
    ),
    Slip(
        "leaky-maximum",
        "max(alpha x, x)",
        "alpha x below 0, also for alpha > 1",
        "Maas et al., 2013, https://ai.stanford.edu/~amaas/papers/relu_hybrid_icml2013_final.pdf",
        LeakyReLU,
        LargerOfTwoLeakyReLU,
        Held("activation", "a_leak_is_the_slope_below_zero"),
    ),
    Slip(
        "early-stopping",
        "stop when the validation loss falls",
        "when it rises",
        "Prechelt, 1998, https://doi.org/10.1007/3-540-49430-8_3",
        Watch,
        StopsWhenBetter,
        stops_when_worse,
    ),
    Slip(
        "bias-under-dropout",
        "E[z] = p (W a + b)",
        "p W a + b",
        SRIVASTAVA,
        DropoutLinear,
        LosesTheBias,
        Held("dropout", "training_keeps_the_mean_of_evaluation"),
    ),
    Slip(
        "gain-of-the-batch",
        "gamma, beta of the size of the batch",
        "one for each feature",
        IOFFE,
        BatchNormalization,
        GainOfExamples,
        Held(normal, "any_number_of_examples_will_do"),
    ),
    Slip(
        "ticket",
        "m . theta after training",
        "m . theta_0",
        "Frankle and Carbin, 2019, https://arxiv.org/abs/1803.03635",
        Pruning,
        KeepsTrainedWeights,
        rewinds,
    ),
    Slip(
        "ratio-of-the-update",
        "|gradient| / |theta|",
        "|update| / |theta|",
        "Karpathy, 2016, https://cs231n.github.io/neural-networks-3",
        of_the_update,
        lambda before, after, gradient: gradient.norm() / before.norm(),
        is_share_of_the_step,
    ),
    Slip(
        "bias-of-the-place",
        "b_fij",
        "b_f",
        DUMOULIN,
        LocalBiasConv,
        BiasOfThePlace,
        Held("convolution", "the_bias_belongs_to_the_channel"),
    ),
    Slip(
        "identity-kernel",
        "the identity matrix",
        "a single 1 in the center",
        "Gonzalez and Woods, 2018, Digital Image Processing",
        lambda: filters.kernels()["identity"],
        lambda: torch.eye(5, dtype=torch.float64) / 5,
        changes_nothing,
    ),
    Slip(
        "flipped-kernel",
        "a convolution with the kernel flipped",
        "the cross-correlation",
        DUMOULIN,
        Conv,
        Flipped,
        Held("convolution", "it_is_the_cross_correlation"),
    ),
    Slip(
        "sum-over-chains",
        "the sum over M draws of the model",
        "1/M of it",
        HINTON,
        RBM,
        SumOverTheChains,
        Held("energy", "only_differences_of_energies_count"),
    ),
    Slip(
        "exp-of-plus-energy",
        "p = exp(+E) / Z",
        "exp(-E) / Z",
        HINTON,
        RBM,
        ExpOfPlusEnergy,
        Held("energy", "low_energy_is_high_probability"),
    ),
    Slip(
        "sigmoid-of-minus",
        "sigma(-b - W x)",
        "sigma(b + W x)",
        HINTON,
        RBM,
        SigmoidOfMinus,
        Held("energy", "samples_follow_the_energies"),
    ),
    Slip(
        "biases-swapped",
        "b and c change places",
        "b visible, c hidden",
        HINTON,
        RBM,
        BiasesSwapped,
        Held("energy", "samples_follow_the_energies"),
    ),
    Slip(
        "sign-of-the-gradient",
        "dE/dW = +h x'",
        "-h x'",
        HINTON,
        RBM,
        OppositeSign,
        Held("energy", "gradient_by_hand_is_that_of_the_loss"),
    ),
    Slip(
        "gaussian-energy",
        "-x'x / 2",
        "+x'x / 2",
        HINTON,
        GaussianRBM,
        OpensDownwards,
        Held("energy", "real_energies_rise_far_out"),
    ),
    Slip(
        "output-from-the-cell",
        "the output is c",
        "h",
        HOCHREITER,
        OpenLSTM,
        ShowsTheCell,
        Held("recurrent", "the_output_is_the_hidden_state"),
    ),
    Slip(
        "sees-what-it-predicts",
        "P(y_t | y_1 .. y_t)",
        "up to y_t-1",
        "Larochelle and Murray, 2011, https://proceedings.mlr.press/v15/larochelle11a.html",
        NADE,
        SeesItself,
        Held("discrete", "probabilities_sum_to_one"),
    ),
    Slip(
        "title-of-an-example",
        "a decoder with a Gaussian prior, called an RBM",
        "a VAE",
        KINGMA,
        reason="the name of an example and the letter of an index: no formula is wrong",
    ),
    Slip(
        "number-of-draws",
        "1/N before a sum over L draws",
        "1/L",
        KINGMA,
        VAE,
        AnotherNumberOfDraws,
        Held("latent", "bounds_stay_below_the_evidence"),
    ),
    Slip(
        "entropy-of-the-posterior",
        "D/2 sum (1 + log s^2)",
        "1/2 sum (1 + log s^2)",
        KINGMA,
        VAE,
        EntropyTimesTheSize,
        Held("latent", "kl_agrees_with_draws"),
    ),
    Slip(
        "conditional-bound",
        "the KL inside the expectation, added",
        "E log p(x | z, c) - KL(q(z | x, c) || p(z | c))",
        "Sohn et al., 2015, https://papers.nips.cc/paper/5775",
        ConditionalVAE,
        AddsTheDivergence,
        Held("latent", "kl_agrees_with_draws"),
    ),
    Slip(
        "approximate-flows",
        "the density of a flow is approximate",
        "exact",
        "Papamakarios et al., 2021, https://arxiv.org/abs/1912.02762",
        RealNVP,
        CalledApproximate,
        Held("flow", "log_prob_is_the_change_of_variables"),
    ),
    Slip(
        "non-saturating-cost",
        "log(1 - D(G(z)))",
        "-log D(G(z))",
        "Goodfellow et al., 2014, https://arxiv.org/abs/1406.2661",
        GAN,
        StillMinimax,
        losing_generator_learns,
    ),
    Slip(
        "free-energy",
        "E[log q - log p] is the bound",
        "its negative",
        "Rezende and Mohamed, 2015, https://arxiv.org/abs/1505.05770",
        FlowVAE,
        FreeEnergyForBound,
        Held("latent", "bounds_stay_below_the_evidence"),
    ),
    Slip(
        "inverse-of-a-coupling",
        "z'' / F - H",
        "(z'' - H) / F",
        "Dinh et al., 2017, https://arxiv.org/abs/1605.08803",
        Coupling,
        DividesThenSubtracts,
        Held("transform", "the_inverse_inverts"),
    ),
    Slip(
        "one-pixel",
        "log |det W| of a 1x1 convolution",
        "h w log |det W|",
        "Kingma and Dhariwal, 2018, https://arxiv.org/abs/1807.03039",
        lambda: InvertibleConv1x1(3),
        lambda: OnePixel(3),
        Held("transform", "log_det_is_that_of_the_jacobian"),
    ),
    Slip(
        "subtracted-condition",
        "a conditional flow subtracts its condition",
        "it models y given x",
        "Lu and Huang, 2020, https://arxiv.org/abs/1905.13288",
        reason="the description of a purpose: no formula is given that could be computed",
    ),
    Slip(
        "parallel-direction",
        "inverse autoregressive flows are slow to sample",
        "fast to sample, slow to evaluate",
        "Kingma et al., 2016, https://arxiv.org/abs/1606.04934",
        reason="a matter of time: both directions give the same numbers",
    ),
    Slip(
        "gradient-of-the-density",
        "the score is the gradient of p",
        "of log p",
        "Hyvarinen, 2005, https://jmlr.org/papers/v6/hyvarinen05a.html",
        lambda: denoising(ScoreMatching),
        lambda: denoising(GradientOfTheDensity),
        Held("score", "learns_the_score_of_a_gaussian"),
    ),
    Slip("no-scale", "softmax(Q K') V", "softmax(Q K' / sqrt(d)) V", VASWANI, Attention, Unscaled, scale),
    Slip(
        "frequencies-by-component",
        "10000^(-2j/d) with the component j",
        "2 floor(j/2) / d",
        VASWANI,
        Sinusoids,
        SinusoidsByComponent,
        Held("positions", "products_depend_on_the_distance_only"),
    ),
    Slip(
        "heads-split-the-input",
        "W_Q of d/h inputs",
        "of all d inputs",
        VASWANI,
        lambda: MultiHeadAttention(8, heads=2),
        SplitAttention,
        Held("attention", "every_head_sees_all_features"),
    ),
    Slip(
        "tokens-to-zero",
        "masked tokens are set to 0",
        "their scores to -inf",
        VASWANI,
        Attention,
        TokensToZero,
        Held("attention", "masked_keys_take_no_share"),
    ),
    Slip(
        "mask-after-softmax",
        "weights times a mask",
        "scores plus -inf, before the softmax",
        VASWANI,
        Weights,
        MaskAfterSoftmax,
        Held("attention", "weights_are_probabilities"),
    ),
)

MUTANTS = [slip for slip in SLIPS if slip.check is not None]
CAUGHT_AT_LEAST = 0.95


@cache
def verdict(key: str) -> tuple[bool, bool]:
    """Whether the healthy form passes the check of a slip, and whether the mutant does."""
    slip = next(each for each in SLIPS if each.key == key)
    assert slip.check is not None
    return slip.check(slip.healthy), slip.check(slip.mutant)


@pytest.mark.parametrize("slip", MUTANTS, ids=lambda slip: slip.key)
def test_the_healthy_form_passes_and_the_slip_is_caught(slip: Slip) -> None:
    healthy, mutant = verdict(slip.key)
    assert healthy, f"{slip.right} ({slip.source}) is right, and its check fails"
    assert not mutant, f"{slip.wrong} is wrong, for {slip.right} ({slip.source}), and its check passes"


def test_nearly_all_mutants_are_caught() -> None:
    caught = [slip.key for slip in MUTANTS if verdict(slip.key) == (True, False)]
    assert len(caught) >= CAUGHT_AT_LEAST * len(MUTANTS), sorted({slip.key for slip in MUTANTS} - set(caught))


def test_every_slip_has_a_mutant_or_says_why_not() -> None:
    assert len({slip.key for slip in SLIPS}) == len(SLIPS) == 78
    assert len(MUTANTS) == 74
    assert all((slip.check is None) == bool(slip.reason) for slip in SLIPS)
