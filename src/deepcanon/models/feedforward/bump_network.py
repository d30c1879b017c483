"""Bump network."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor

from deepcanon.core import Labeled
from deepcanon.core.checks import one_of
from deepcanon.models.feedforward._cells import Cells

Step = Literal["ramp", "logistic"]


class BumpNetwork(Cells):
    r"""A network with one hidden layer, built as a sum of bumps: universal approximation on the line.

    Each bump is the difference of two step functions, and with enough of them the network approximates any continuous
    function as closely as wanted.

    .. math:: f(x) = \sum_{k=1}^{K} a_k \left( s_k(x) - s_{k+1}(x) \right), \qquad s_1 = 1, \quad s_{K+1} = 0 \qquad (1)

    The cells have the width w and the centers :math:`c_k`; the step :math:`s_k` lies between the cells k - 1 and k, and
    the outermost cells go on beyond the border, so that the bumps are a partition of unity. A ramp is made of two
    ReLU units and reaches from center to center; a logistic step is one unit:

    .. math:: s_k(x) = \left(\tfrac{x - c_{k-1}}{w}\right)_+ - \left(\tfrac{x - c_k}{w}\right)_+ \quad\text{or}\quad
              s_k(x) = \frac{1}{1 + e^{-\beta (x - c_k + w/2) / w}} \qquad (2)

    Built from an L-Lipschitz function by :math:`a_k = f(c_k)`, ramps are nowhere farther from it than
    :math:`L w / 2`, and logistic steps than :math:`L w (1/2 + 2 \ln 2 / \beta)`. Learned from data in one epoch,
    :math:`a_k` is the mean of the targets in the cell, or the log-frequencies of the classes.

    References:
        | Approximation by superpositions of a sigmoidal function (Cybenko, 1989), https://doi.org/10.1007/BF02551274
        | Neural Networks and Deep Learning (Nielsen, 2015), chapter 4,
          http://neuralnetworksanddeeplearning.com/chap4.html

    Arguments:
        features: The number of features of an example, which is one.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        cells: The number of cells K.
        step: The step function :math:`s_k`: ``ramp`` or ``logistic``.
        steepness: The steepness :math:`\beta` of logistic steps, in units of one over the width of a cell.
    """

    def __init__(
        self,
        features: Literal[1],
        classes: int | None = None,
        targets: int | None = None,
        cells: int = 32,
        step: Step = "ramp",
        steepness: float = 20.0,
    ) -> None:
        super().__init__(features, classes, targets, cells)
        one_of(get_args(Step), step=step)
        self.step = step
        self.steepness = steepness

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.rand(64, 1, generator=torch.Generator().manual_seed(0))
        return cls(features=1, targets=1, cells=8), Labeled(x, (6 * x).sin())

    def units(self, x: Tensor) -> Tensor:
        """The bumps at x, (B, 1) to (B, K)."""
        z = (x - self.middles()) / self.widths()  # (B, K): the distance from each center, in cells
        if self.step == "ramp":
            steps = z[:, :-1].relu() - z[:, 1:].relu()  # (B, K - 1), eq. (2)
        else:
            steps = (self.steepness * (z[:, 1:] + 0.5)).sigmoid()  # eq. (2)
        ends = x.new_ones(len(x), 1)
        return torch.cat([ends, steps], 1) - torch.cat([steps, 0 * ends], 1)  # the bumps of eq. (1)
