"""Tower network."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor

from deepcanon.core import Labeled
from deepcanon.core.checks import one_of
from deepcanon.models.feedforward._cells import Cells

Towers = Literal["overlapping", "plain"]


class TowerNetwork(Cells):
    r"""A network with two hidden layers, built as a sum of towers on a grid: universal approximation.

    .. math:: f(x) = \sum_c a_c \, T_c(x), \qquad z_i = (x_i - c_i) / w_i \qquad (1)

    with one tower for each cell of center c and sides w. Overlapping towers are made of ReLU units and are a partition
    of unity: x is first clipped to the outermost centers, and then

    .. math:: T_c(x) = \left( 1 - \max(0, z_1, \dots, z_n) - \max(0, -z_1, \dots, -z_n) \right)_+,
              \qquad \max(a, b) = a + (b - a)_+ \qquad (2)

    Built from an L-Lipschitz function on the unit cube by :math:`a_c = f(c)` with
    :math:`K = \lceil \sqrt n L / (2 \varepsilon) \rceil` cells per axis, they are nowhere farther from it than
    :math:`\varepsilon`: under the weights of the towers at x, the centers have a variance around x of at most
    :math:`1/(2K)^2` in each coordinate. Plain towers are made of logistic units,

    .. math:: T_c(x) = \sigma\left( \beta \left[ \textstyle\sum_i \sigma(\beta (z_i + \tfrac12))
              - \sigma(\beta (z_i - \tfrac12)) \right] - \beta (n - \tfrac12) \right) \qquad (3)

    On the lines of the grid all of them are 0, however steep: they approximate a function away from these lines and in
    the mean, but not uniformly. Learned from data in one epoch, :math:`a_c` is the mean of the targets in the cell, or
    the log-frequencies of the classes.

    References:
        | Multilayer feedforward networks are universal approximators (Hornik et al., 1989),
          https://doi.org/10.1016/0893-6080(89)90020-8
        | Neural Networks and Deep Learning (Nielsen, 2015), chapter 4,
          http://neuralnetworksanddeeplearning.com/chap4.html
        | ReLU deep neural networks and linear finite elements (He et al., 2020), https://arxiv.org/abs/1807.03973

    Arguments:
        features: The dimension n: one, two or three.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        cells: The number of cells K along each axis.
        towers: The basis functions :math:`T_c`: ``overlapping`` or ``plain``.
        steepness: The steepness :math:`\beta` of plain towers; a cell has the width one.
    """

    def __init__(
        self,
        features: Literal[1, 2, 3],
        classes: int | None = None,
        targets: int | None = None,
        cells: int = 12,
        towers: Towers = "overlapping",
        steepness: float = 100.0,
    ) -> None:
        super().__init__(features, classes, targets, cells)
        one_of(get_args(Towers), towers=towers)
        self.towers = towers
        self.steepness = steepness

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.rand(64, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, targets=1, cells=4), Labeled(x, x.prod(1, keepdim=True))

    def units(self, x: Tensor) -> Tensor:
        """The towers at x, (B, n) to (B, K^n)."""
        if self.towers == "plain":
            z = (x.unsqueeze(1) - self.centers()) / self.widths()  # (B, K^n, n), eq. (1)
            k = self.steepness
            bumps = (k * (z + 0.5)).sigmoid() - (k * (z - 0.5)).sigmoid()
            return (k * (bumps.sum(-1) - self.features + 0.5)).sigmoid()  # eq. (3)
        first, last = self.middles()[:, 0], self.middles()[:, -1]
        x = first + (x - first).relu() - (x - last).relu()
        z = (x.unsqueeze(1) - self.centers()) / self.widths()  # eq. (1)
        return (1 - _largest(z) - _largest(-z)).relu()  # eq. (2)


def _largest(z: Tensor) -> Tensor:
    """The maximum of zero and the last axis, by ReLU units alone."""
    most = torch.zeros_like(z[..., 0])
    for part in z.unbind(-1):
        most = most + (part - most).relu()
    return most
