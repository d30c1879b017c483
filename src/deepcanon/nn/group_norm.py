"""Group normalization of images whose channels are stored last."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm

MANY = 8
"""The channels in a group from which on torch's own kernel is the faster one."""


class GroupNorm(nn.GroupNorm):
    r"""Group normalization, as torch has it, that is as fast where the channels of images are stored last.

    .. math:: y_c = \gamma_c \frac{x_c - \mu_g}{\sqrt{\sigma_g^2 + \epsilon}} + \beta_c

    Mean and variance are those of all pixels of the channels in the group g of c, for each example. Convolutions are
    faster with channels last, but torch normalizes groups of few channels of such images much more slowly than it has
    to. State and numbers are those of ``torch.nn.GroupNorm``.

    References:
        | Group Normalization (Wu and He, 2018), https://arxiv.org/abs/1803.08494

    >>> GroupNorm(2, 4)(torch.ones(1, 4, 3, 3)).abs().max().item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self._slow_in_torch(input):
            return super().forward(input)
        rows = input.permute(0, 2, 3, 1).flatten(1, 2)  # (B, pixels, C)
        if torch.is_grad_enabled() and (input.requires_grad or self.weight.requires_grad):
            normal: Tensor = _GroupNorm.apply(rows, self.weight, self.bias, self.num_groups, self.eps)  # type: ignore[no-untyped-call]
        else:
            normal = _normalized(rows, self.weight, self.bias, self.num_groups, self.eps)[0]
        images: Tensor = normal.unflatten(1, input.shape[2:]).permute(0, 3, 1, 2)
        return images

    def _slow_in_torch(self, images: Tensor) -> bool:
        last = images.ndim == 4 and images.is_contiguous(memory_format=torch.channels_last)
        few = self.num_channels // self.num_groups < MANY
        return last and few and self.affine and images.is_cpu and images.dtype == self.weight.dtype


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
        normal, centered, scale = _normalized(rows, weight, bias, groups, eps)
        ctx.groups, ctx.eps = groups, eps
        ctx.save_for_backward(rows, weight, bias, centered, scale)
        return normal

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        rows, weight, bias, centered, scale = ctx.saved_tensors
        groups = ctx.groups
        if torch.is_grad_enabled():  # a derivative of the gradient is asked for, which torch knows
            inputs = (rows, weight, bias)
            with torch.enable_grad():
                normal = group_norm(rows.mT, groups, weight, bias, ctx.eps).mT
                found = torch.autograd.grad(normal, inputs, gradient, create_graph=True)
            return *found, None, None
        summed = gradient.sum(1)  # (B, C)
        along = (gradient * centered).sum(1) * scale
        count = rows.shape[1] * rows.shape[2] // groups
        share = _spread(_grouped(weight * summed, groups), rows) / count
        slope = _spread(_grouped(weight * along, groups), rows) / count
        of_rows = torch.addcmul(-(scale * share).unsqueeze(1), gradient, (scale * weight).unsqueeze(1))
        of_rows = of_rows.addcmul_(centered, -(scale.square() * slope).unsqueeze(1))
        return of_rows, along.sum(0), summed.sum(0), None, None


def _normalized(rows: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normalized rows, (B, pixels, C), the centered ones, and one over the standard deviation, (B, C)."""
    count = rows.shape[1] * rows.shape[2] // groups
    mean = _spread(_grouped(rows.sum(1), groups), rows) / count
    centered = rows - mean.unsqueeze(1)
    variance = _spread(_grouped(centered.square().sum(1), groups), rows) / count
    scale = (variance + eps).rsqrt()
    return torch.addcmul(bias, centered, (scale * weight).unsqueeze(1)), centered, scale


def _grouped(channels: Tensor, groups: int) -> Tensor:
    """The sums of (B, C) over the channels of each group, (B, groups)."""
    sums: Tensor = channels.unflatten(1, (groups, -1)).sum(-1)
    return sums


def _spread(values: Tensor, rows: Tensor) -> Tensor:
    """The values of groups, (B, groups), at each of their channels, (B, C)."""
    return values.repeat_interleave(rows.shape[2] // values.shape[1], 1)
