"""Wasserstein gradient flow (JKO scheme)."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe, Terms, UsageError
from deepcanon.core.checks import at_least, flat, positive
from deepcanon.distributions.bits_per_dim import bits_per_dim
from deepcanon.models.flows._flow import StandardizedFlow
from deepcanon.nn.dense import dense
from deepcanon.nn.transforms import AffineCoupling, Chain, Reverse, Transform


class WassersteinFlow(StandardizedFlow[Batch]):
    r"""A normalizing flow whose steps take data to noise the shortest way, each by a step of the JKO scheme.

    Also known as: JKO flow, Jordan-Kinderlehrer-Otto scheme.

    The distribution of the data, standardized, follows the gradient flow of :math:`KL(p \,\|\, N(0, I))` in the space
    of distributions with the Wasserstein distance :math:`W_2`, which is the Fokker-Planck equation of noise that is
    added while everything shrinks. A step of length h of the implicit Euler method is

    .. math:: p_{k+1} = \arg\min_p\; KL(p \,\|\, N(0, I)) + \frac{1}{2h} W_2^2(p_k, p) \qquad (1)

    and with :math:`p_{k+1}` the distribution of :math:`T_k(x)`, in expectation over :math:`x \sim p_k`,

    .. math:: T_k = \arg\min_T\; E\, \bigl[ \tfrac12 \lVert T(x) \rVert^2 + \tfrac D2 \log 2\pi - \log \det T'(x)
              \bigr] + \frac{1}{2h} E \lVert T(x) - x \rVert^2 \qquad (2)

    but for the entropy of :math:`p_k`, which is constant. Each :math:`T_k` is a few affine couplings, trained by (2)
    on what the steps before it make of the data, without gradients to them. All steps together are a flow:

    .. math:: z = T_K \circ \cdots \circ T_1(x), \qquad
              \log \left| \det \frac{dz}{dx} \right| = \sum_k \log |\det T_k'| \qquad (3)

    Of a Gaussian :math:`N(m, \sigma^2)` a step is :math:`m / (1 + h)` and the root of
    :math:`(1 + h) \sigma' - h / \sigma' = \sigma`. What is left at the end is noise but for a factor of
    :math:`(1 + h)^{-K}`, and the likelihood is exact all the same, as that of N(0, I) at z.

    References:
        | The Variational Formulation of the Fokker-Planck Equation (Jordan, Kinderlehrer and Otto, 1998),
          https://doi.org/10.1137/S0036141096303359
        | Normalizing flow neural networks by JKO scheme (Xu, Cheng and Xie, 2023), https://arxiv.org/abs/2212.14424

    Arguments:
        features: The dimension :math:`D` of the data, at least 2.
        transforms: The number :math:`K` of steps.
        step_size: The length :math:`h` of a step in time.
        couplings: The number of affine couplings of a step.
        hidden: The widths of the hidden layers of the couplings.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    default_data = "moons"
    surrogate = True
    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=256, epochs=40)

    def __init__(
        self,
        features: int,
        transforms: int = 6,
        step_size: float = 1.0,
        couplings: int = 4,
        hidden: tuple[int, ...] = (32, 32),
        levels: int | None = None,
    ) -> None:
        super().__init__(features, levels)
        if features < 2:
            raise UsageError(f"{self.name()} couples two halves: features must be at least 2 (got {features})")
        at_least(1, transforms=transforms)
        at_least(2, couplings=couplings)
        positive(step_size=step_size)
        self.step_size = step_size
        self.steps = nn.ModuleList(_step(features, couplings, hidden) for _ in range(transforms))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) @ torch.tensor([[2.0, 1.0], [0.0, 0.5]])
        return cls(features=2, transforms=2, couplings=2, hidden=(8,)), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        self.check_values(batch.x)
        x = self.standard(flat(batch.x, self.features))
        divergence, transport = x.new_zeros(()), x.new_zeros(())
        for step in self.steps:
            moved, log_det = step(x)
            divergence = divergence + (0.5 * moved.square().sum(-1) - log_det).mean()
            transport = transport + (moved - x).square().sum(-1).mean() / (2 * self.step_size)  # eq. (2)
            x = moved.detach()  # eq. (1), one step after the other
        constant = 0.5 * self.features * len(self.steps) * math.log(2 * math.pi)
        return {"divergence": divergence + constant, "transport": transport}

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        found = {"nll": -self.log_prob(batch.x).mean()} if self.has_likelihood_of(batch.x) else {}
        return bits_per_dim(found, self.dimensions, self.levels)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.standard(flat(x, self.features))
        log_det = self.standard.log_det().expand(len(z))
        for step in self.steps:
            z, change = step(z)
            log_det = log_det + change  # eq. (3)
        return z, log_det

    def to_data(self, z: Tensor) -> Tensor:
        for step in reversed(self.steps):
            z = step.inverse(z)  # type: ignore[operator]
        return self.standard.inverse(z)

    @torch.no_grad()
    def path(self, x: Tensor) -> Tensor:
        """The examples, standardized, and where each step takes them, (transforms + 1, B, features)."""
        places = [self.standard(flat(x, self.features))]
        for step in self.steps:
            places.append(step(places[-1])[0])
        return torch.stack(places)


def _step(features: int, couplings: int, hidden: tuple[int, ...]) -> Chain:
    """The map of one step: affine couplings, each of which changes what the one before has read; at first none."""
    layers: list[Transform] = []
    for _ in range(couplings):
        # the first half, which is read, has one more of an odd number of features
        net = dense((features + 1) // 2, 2 * (features // 2), hidden, activation="tanh")
        last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        layers += [AffineCoupling(net), Reverse()]
    return Chain(layers if couplings % 2 == 0 else [*layers, Reverse()])
