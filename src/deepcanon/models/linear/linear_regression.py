"""Linear regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from deepcanon.core import Absorb, DataError, Labeled, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.models._predictor import Predictor
from deepcanon.models.linear._convex import Convex, convex

Solution = Literal["exact", "descent"]


class LinearRegression(Convex, Predictor):
    r"""A linear map that minimizes the mean squared error, in closed form or by gradient descent.

    Also known as: ordinary least squares, OLS, least squares.

    .. math:: f(x) = W x + b, \qquad (W, b) = \arg\min \sum_n \lVert y_n - W x_n - b \rVert^2 \qquad (1)

    In closed form, the rows :math:`(x_n, 1, y_n)` seen so far are kept as the triangular factor R of their QR
    decomposition, and new rows Z update it to

    .. math:: \begin{pmatrix} R \\ Z \end{pmatrix} = Q R', \qquad
              R' = \begin{pmatrix} R_{xx} & R_{xy} \\ 0 & R_{yy} \end{pmatrix}, \qquad
              (W, b)^\top = R_{xx}^{+} R_{xy} \qquad (2)

    so that one epoch gives the solution whatever the size of the batches, and a second one changes nothing. Unlike the
    normal equations it does not square the condition number of the data; where features are collinear the
    pseudoinverse gives the solution of smallest norm. A sampled prediction has unit variance around the mean.

    References:
        | Nouvelles methodes pour la determination des orbites des cometes (Legendre, 1805), appendix
        | Numerical Methods for Least Squares Problems (Bjoerck, 1996), https://doi.org/10.1137/1.9781611971484

    Arguments:
        features: The number of features of an example.
        targets: The number of real targets.
        solution: ``exact`` for the closed form, ``descent`` for gradient descent on the mean squared error.
    """

    recipe = convex(epochs=1, iterations=500)
    classes = None

    triangle: Tensor

    def __init__(self, features: int, targets: int, solution: Solution = "exact") -> None:
        super().__init__()
        at_least(1, features=features, targets=targets)
        one_of(get_args(Solution), solution=solution)
        self.targets = targets
        self.solution = solution
        self._build(features, outputs=targets)
        if solution == "exact":
            self.linear.requires_grad_(False)
            size = features + 1 + targets
            self.register_buffer("triangle", torch.zeros(size, size, dtype=torch.float64))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        generator = torch.Generator().manual_seed(0)
        x, noise = (torch.randn(32, size, generator=generator) for size in (3, 2))
        return cls(features=3, targets=2), Labeled(x, x.cumsum(1)[:, 1:] + 0.1 * noise + 1)

    def forward(self, x: Tensor) -> Tensor:
        """The means of the targets, (B, targets)."""
        means: Tensor = self.linear(flat(x, self.features))  # f(x) of eq. (1)
        return means

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [Absorb(self.absorb)] if self.solution == "exact" else super().turns()

    @torch.no_grad()
    def absorb(self, batch: Labeled) -> Terms:
        """Add the rows of a batch and solve the least squares of all rows seen so far."""
        x, y = flat(batch.x, self.features), batch.y
        if y.shape != (len(x), self.targets):
            raise DataError(f"the targets must have the shape {(len(x), self.targets)}, got {tuple(y.shape)}")
        rows = torch.cat([x, x.new_ones(len(x), 1), y], dim=1).to(self.triangle.dtype)
        self.triangle.copy_(torch.linalg.qr(torch.cat([self.triangle, rows]), mode="r").R)  # eq. (2)
        inputs = self.features + 1
        known, wanted = self.triangle[:inputs, :inputs], self.triangle[:inputs, inputs:]
        solved = torch.linalg.pinv(known) @ wanted  # (features + 1, targets), eq. (2)
        self.linear.weight.copy_(solved[:-1].T)
        self.linear.bias.copy_(solved[-1])
        return self.loss(batch)
