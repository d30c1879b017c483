"""Continuous normalizing flow (CNF)."""

from __future__ import annotations

import math
from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Context, Recipe, UsageError, bound
from deepcanon.core.checks import flat, one_of
from deepcanon.models.flows._flow import StandardizedFlow
from deepcanon.nn.ode import Field, integrate
from deepcanon.nn.vector_field import VectorField

Trace = Literal["auto", "exact", "hutchinson"]

FEW = 8
"""Up to how many features the trace is exact by default; beyond, it costs much more than the field itself."""

LOOSER = 100
"""How many times as large errors are in training: the noise of its gradients is larger still."""


class ContinuousFlow(StandardizedFlow[Batch]):
    r"""A normalizing flow that moves noise to data along a learned vector field, by a differential equation.

    Also known as: FFJORD, neural ODE flow, infinitesimal flow.

    .. math:: \frac{dx}{dt} = f(t, x), \qquad x(0) = z \sim N(0, I) \qquad (1)

    .. math:: \log \left| \det \frac{dz}{dx(1)} \right| = -\int_0^1 \mathrm{tr}\, \frac{\partial f}{\partial x}\, dt
        \qquad (2)

    The data are :math:`x(1)`, standardized. Any smooth field is a flow that can be inverted: the equation is solved
    backwards, by steps whose error stays below the tolerance. The trace is exact, by one derivative for each feature,
    or estimated by Hutchinson's unbiased estimator, one derivative along random signs, whatever the number of features;
    then the likelihood is an estimate, while ``to_latent`` and ``score`` stay exact.

    .. math:: \mathrm{tr}\, A = E[e^\top A\, e], \qquad e_d = \pm 1 \text{ with probability } \tfrac12 \qquad (3)

    References:
        | Neural Ordinary Differential Equations (Chen et al., 2018), https://arxiv.org/abs/1806.07366
        | FFJORD: Free-form Continuous Dynamics for Scalable Reversible Generative Models (Grathwohl et al., 2019),
          https://arxiv.org/abs/1810.01367

    Arguments:
        features: The dimension :math:`D` of the data.
        hidden: The widths of the hidden layers of the vector field.
        trace: How the trace in (2) is found: "exact", "hutchinson" for its estimate (3), or "auto", which is exact for
            up to 8 features.
        tolerance: The error, relative and absolute, that a step of the solver may have; in training, 100 times as much.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    recipe = Recipe(lr=2e-2, schedule="cosine:warmup=10", batch_size=256, epochs=20)

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (32, 32, 32),
        trace: Trace = "auto",
        tolerance: float = 1e-5,
        levels: int | None = None,
    ) -> None:
        super().__init__(features, levels)
        one_of(get_args(Trace), trace=trace)
        if not 0 < tolerance <= 0.01:
            raise UsageError(f"tolerance is a small error, above 0 and at most 0.01 (got {tolerance})")
        exact = features <= FEW if trace == "auto" else trace == "exact"
        self.likelihood_kind = "exact" if exact else "estimate"
        self.tolerance = tolerance
        self.field = VectorField(features, hidden)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
        return cls(features=3, hidden=(8,), tolerance=1e-7), Batch(x)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        axes = torch.eye(self.features, dtype=x.dtype, device=x.device)
        return self._to_latent(x, axes.unsqueeze(1).expand(-1, len(x), -1))

    def to_data(self, z: Tensor) -> Tensor:
        return self.standard.inverse(self._solve(self.field, z, (0.0, 1.0)))  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        return self._solve(self.field, self.standard(flat(x, self.features)), (1.0, 0.0))

    def score(self, x: Tensor, *, context: Context | None = None) -> Tensor:
        """The gradient of the exact log-density at each example, in the shape of ``x``."""
        bound(self, context, len(x)).check_values(x)
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self._log_prob(x).sum(), x)
        return gradient

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        shape = (samples or 1, len(x), self.features)
        signs = 2 * torch.randint(2, shape, generator=generator, device=x.device).to(x.dtype) - 1
        return self._change_of_variables(*self._to_latent(x, signs / math.sqrt(len(signs))))

    def _to_latent(self, x: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """The latents and log-determinants by the derivatives along directions whose outer products sum to I."""

        def dynamics(t: Tensor, state: Tensor) -> Tensor:
            velocity, change = self.field.along(t, state[:, :-1], directions)
            trace = (directions * change).sum((0, 2))  # eq. (3), which is exact where the directions are the axes
            return torch.cat([velocity, trace.unsqueeze(1)], 1)

        start = self.standard(flat(x, self.features))
        end = self._solve(dynamics, torch.cat([start, start.new_zeros(len(x), 1)], 1), (1.0, 0.0))
        return end[:, :-1], end[:, -1] + self.standard.log_det()  # eq. (2)

    def _solve(self, field: Field, state: Tensor, times: tuple[float, float]) -> Tensor:
        tolerance = (LOOSER if self.training else 1) * self.tolerance
        return integrate(field, state, times, rtol=tolerance, atol=tolerance)[-1]
