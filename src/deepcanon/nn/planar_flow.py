"""Planar and radial flows: invertible transforms that push points along a direction or away from a center."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core.checks import at_least
from deepcanon.nn.bisection import bisection
from deepcanon.nn.transforms import Mapped, Transform

INVERSE_SOFTPLUS_OF_1 = math.log(math.e - 1)


class _Numbered(Transform):
    """A transform of so many numbers, which are parameters, or a linear function of a context for each example."""

    def __init__(self, numbers: int, context: int) -> None:
        super().__init__()
        at_least(0, context=context)
        self.conditional = context > 0
        # Small weights, so that the transform starts near the identity.
        self.numbers = nn.Parameter(0.1 * torch.randn(numbers))
        self.weight = nn.Parameter(0.01 * torch.randn(numbers, context)) if context else None

    def _numbers(self, context: Tensor | None) -> Tensor:
        """The numbers for each example, (B, numbers), or for all, (1, numbers)."""
        if self.weight is None or context is None:
            return self.numbers.unsqueeze(0)
        return torch.addmm(self.numbers, context, self.weight.T)


class Planar(_Numbered):
    r"""A planar flow: points are pushed along u by a function of their place along w.

    .. math:: f(z) = z + u \tanh(w^\top z + b), \qquad
              \log |\det f'(z)| = \log (1 + (1 - \tanh^2(w^\top z + b)) \, w^\top u)

    It is invertible if :math:`w^\top u > -1`, so the component of u along w is moved there. The inverse solves an
    equation with one unknown, :math:`w^\top z`, by bisection.

    References:
        | Variational Inference with Normalizing Flows (Rezende and Mohamed, 2015), https://arxiv.org/abs/1505.05770

    Arguments:
        features: The dimension of z.
        context: The number of values in a context that u, w and b depend on; at 0 they are parameters.
    """

    def __init__(self, features: int, context: int = 0) -> None:
        at_least(1, features=features)
        self.features = features
        super().__init__(2 * features + 1, context)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        u, w, b, along = self._parts(context)
        bend = ((x * w).sum(-1, keepdim=True) + b).tanh()  # (B, 1)
        return x + u * bend, torch.log1p((1 - bend.square()) * along).squeeze(-1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        u, w, b, along = self._parts(context)
        place = (z * w).sum(-1, keepdim=True)

        def moved(place: Tensor) -> Mapped:
            bend = (place + b).tanh()
            return place + along * bend, 1 + along * (1 - bend.square())

        return z - u * (bisection(moved, place, place - along.abs(), place + along.abs()) + b).tanh()

    def _parts(self, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """u, made invertible, w, b and their product w'u, which is above -1."""
        u, w, b = self._numbers(context).split([self.features, self.features, 1], -1)
        product = (u * w).sum(-1, keepdim=True)
        along = softplus(product + INVERSE_SOFTPLUS_OF_1) - 1  # near product where that is near 0
        return u + (along - product) * w / w.square().sum(-1, keepdim=True), w, b, along


class Radial(_Numbered):
    r"""A radial flow: points are pushed away from a center c, or drawn towards it, the nearer the more.

    .. math:: f(z) = z + \frac{\beta}{\alpha + r} (z - c), \quad r = \lVert z - c \rVert, \qquad
              |\det f'(z)| = \Bigl(1 + \frac{\beta}{\alpha + r}\Bigr)^{D-1}
              \Bigl(1 + \frac{\alpha \beta}{(\alpha + r)^2}\Bigr)

    It is invertible if :math:`\alpha > 0` and :math:`\beta > -\alpha`, and the inverse solves a quadratic equation for
    r.

    References:
        | Variational Inference with Normalizing Flows (Rezende and Mohamed, 2015), https://arxiv.org/abs/1505.05770

    Arguments:
        features: The dimension D of z.
        context: The number of values in a context that alpha, beta and c depend on; at 0 they are parameters.
    """

    def __init__(self, features: int, context: int = 0) -> None:
        at_least(1, features=features)
        self.features = features
        super().__init__(features + 2, context)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        center, alpha, beta = self._parts(context)
        away = x - center
        distance = alpha + torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        log_det = (self.features - 1) * torch.log1p(beta / distance) + torch.log1p(alpha * beta / distance.square())
        return x + beta / distance * away, log_det.squeeze(-1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        center, alpha, beta = self._parts(context)
        away = z - center
        distance = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        half = (distance - alpha - beta) / 2
        r = half + (half.square() + alpha * distance).sqrt()
        x: Tensor = center + away / (1 + beta / (alpha + r))
        return x

    def _parts(self, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The center, alpha > 0 and beta > -alpha; with numbers near 0 beta is near 0."""
        center, alpha, beta = self._numbers(context).split([self.features, 1, 1], -1)
        alpha = softplus(alpha)
        return center, alpha, softplus(beta + torch.expm1(alpha).log()) - alpha
