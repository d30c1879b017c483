"""Invertible transforms with their log-determinants: the layers of normalizing flows, of data and of posteriors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.fusing import can_fuse
from deepcanon.core.precision import full, in_full_precision

Mapped = tuple[Tensor, Tensor]
"""The image z of each example and ``log |det dz/dx|``, (B,)."""

LIMIT = 2.0
"""The largest log-scale of an affine coupling, so that no scale diverges and the inverse stays exact."""


class Transform(nn.Module, ABC):
    r"""An invertible map of each example, :math:`z = f(x)`, with its log-determinant.

    ``forward(x)`` gives z and :math:`\log |\det dz/dx|`, one number for each example; ``inverse(z)`` gives x. With x
    distributed as p, z has the log-density :math:`\log p(x) - \log |\det dz/dx|`.

    A ``conditional`` transform takes a second argument in ``forward`` and ``inverse``: the context, one row for each
    example, that its map depends on.
    """

    conditional: bool = False

    @abstractmethod
    def forward(self, x: Tensor) -> Mapped:
        """The image z of each example and ``log |det dz/dx|``, (B,)."""

    @abstractmethod
    def inverse(self, z: Tensor) -> Tensor:
        """The examples x that are mapped to z."""

    def inverse_with_log_det(self, z: Tensor, context: Tensor | None = None) -> Mapped:
        """The examples x that are mapped to z, and ``log |det dx/dz|``, (B,): what a sample needs for its density."""
        given, own = _given(self, context), cast(Any, self)
        x = own.inverse(z, *given)
        return x, -own(x, *given)[1]

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Initialize what depends on data by these examples, and give their images z."""
        z: Tensor = self(x, *_given(self, context))[0]
        return z


class Chain(Transform):
    r"""Transforms one after the other, :math:`f_n \circ \cdots \circ f_1`; their log-determinants add up.

    A context goes to those that are conditional.

    >>> chain = Chain([Reverse(), Reverse()])
    >>> z, log_det = chain(torch.tensor([[1.0, 2.0]]))
    >>> z.tolist(), log_det.tolist()
    ([[1.0, 2.0]], [0.0])
    """

    def __init__(self, transforms: Iterable[Transform]) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(transforms)
        self.conditional = any(transform.conditional for transform in self.transforms)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        log_det = x.new_zeros(x.shape[0])
        self._check(context)
        for transform in self.transforms:
            x, change = transform(x, *_given(transform, context))
            log_det = log_det + change
        return x, log_det

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        self._check(context)
        for transform in reversed(self.transforms):
            step: Any = transform
            z = step.inverse(z, *_given(transform, context))
        return z

    def inverse_with_log_det(self, z: Tensor, context: Tensor | None = None) -> Mapped:
        log_det = z.new_zeros(z.shape[0])
        self._check(context)
        for transform in reversed(self.transforms):
            step: Any = transform
            z, change = step.inverse_with_log_det(z, context)
            log_det = log_det + change
        return z, log_det

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        for transform in self.transforms:
            step: Any = transform
            x = step.fit(x, *_given(transform, context))
        return x

    def _check(self, context: Tensor | None) -> None:
        if context is not None and not self.conditional:
            raise UsageError("none of these transforms is conditional; leave out the context")


class Inverse(Transform):
    """The inverse of a transform as a transform: its map is the other's ``inverse``.

    The log-determinant is minus that of the other at what the inverse gives. A transform that is solved numerically
    in one direction, or that takes many passes, so becomes one whose easy direction is the other.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.transform = transform
        self.conditional = transform.conditional

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        return self.transform.inverse_with_log_det(x, *_given(self, context))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        return self.inverse_with_log_det(z, context)[0]

    def inverse_with_log_det(self, z: Tensor, context: Tensor | None = None) -> Mapped:
        mapped: Mapped = self.transform(z, *_given(self, context))
        return mapped


class Reverse(Transform):
    """The features, or channels, in reverse order, so that the next coupling reads what this one has changed."""

    def forward(self, x: Tensor) -> Mapped:
        return x.flip(1), x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> Tensor:
        return z.flip(1)


class ActNorm(Transform):
    r"""One scale and one shift for each feature or channel, :math:`z_c = e^{s_c} (x_c + b_c)`.

    ``fit`` chooses them such that z has mean 0 and variance 1 in every channel, once: from then on they are
    parameters like all others. A channel that is constant keeps its scale.

    References:
        | Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018),
          https://arxiv.org/abs/1807.03039
    """

    fitted: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.register_buffer("fitted", torch.tensor(False))

    def forward(self, x: Tensor) -> Mapped:
        z = (x + _of_channels(self.bias, x)) * _of_channels(self.log_scale.exp(), x)
        return z, _everywhere(self.log_scale.sum(), x)

    def inverse(self, z: Tensor) -> Tensor:
        return z * _of_channels((-self.log_scale).exp(), z) - _of_channels(self.bias, z)

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        if not self.fitted:
            values = x.transpose(0, 1).flatten(1).double()  # (channels, B ...)
            mean, std = values.mean(1), values.std(1, correction=0)
            self.bias.copy_(-mean)
            self.log_scale.copy_(-torch.where(std > 1e-6 * (1e-6 + mean.abs()), std, 1.0).log())
            self.fitted.fill_(True)
        return super().fit(x, context)


class InvertibleConv1x1(Transform):
    r"""An invertible 1x1 convolution, :math:`z = W x` at every position: a learned mixing of the channels.

    The weight is held as :math:`W = P L (U + \mathrm{diag}(\sigma e^{s}))`, with a fixed permutation P and fixed signs
    :math:`\sigma`, L lower triangular with a diagonal of ones and U strictly upper triangular. So it is always
    invertible, and :math:`\log |\det dz/dx| = H W \sum_c s_c` costs no determinant. It begins as a random rotation.

    References:
        | Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018),
          https://arxiv.org/abs/1807.03039
    """

    order: Tensor
    sign: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_scale = nn.Parameter(upper.diagonal().abs().log())
        self.register_buffer("order", permutation.argmax(1))
        self.register_buffer("sign", upper.diagonal().sign())

    def weight(self) -> Tensor:
        """The matrix W, (channels, channels)."""
        lower, upper = self._factors(self.lower, self.upper, self.log_scale)
        return (lower @ upper).index_select(0, self.order)

    def forward(self, x: Tensor) -> Mapped:
        if can_fuse(x):
            fused: Mapped = _Mixed.apply(self, x, self.lower, self.upper, self.log_scale)  # type: ignore[no-untyped-call]
            return fused
        return self.mixed(x, self.lower, self.upper, self.log_scale)

    def mixed(self, x: Tensor, lower: Tensor, upper: Tensor, log_scale: Tensor) -> Mapped:
        """What ``forward`` gives with these parameters, by the operations that it consists of."""
        with in_full_precision(x):
            left, right = self._factors(lower, upper, log_scale)
            weight = (left @ right).index_select(0, self.order)
            z = F.linear(x, weight) if x.ndim == 2 else F.conv2d(x, weight[:, :, None, None])
        return z, _everywhere(log_scale.sum(), x)

    def inverse(self, z: Tensor) -> Tensor:
        lower, upper = self._factors(self.lower, self.upper, self.log_scale)
        x = z.flatten(2) if z.ndim > 2 else z.unsqueeze(2)
        x = x.index_select(1, self.order.argsort())
        x = torch.linalg.solve_triangular(lower, x, upper=False, unitriangular=True)
        solved: Tensor = torch.linalg.solve_triangular(upper, x, upper=True)
        return solved.reshape(z.shape)

    def _factors(self, lower: Tensor, upper: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
        eye = torch.eye(len(self.sign), dtype=self.sign.dtype, device=self.sign.device)
        return lower.tril(-1) + eye, upper.triu(1) + torch.diag(self.sign * log_scale.exp())


class _Mixed(torch.autograd.Function):
    """The 1x1 convolution as one operation, whose gradient is written out: its weight takes many that are tiny."""

    @staticmethod
    def forward(ctx: Any, layer: Any, x: Tensor, lower: Tensor, upper: Tensor, log_scale: Tensor) -> Mapped:
        scale = layer.sign * log_scale.exp()
        left, right = lower.tril(-1), upper.triu(1)
        left.diagonal().fill_(1)
        right.diagonal().copy_(scale)
        weight = (left @ right).index_select(0, layer.order)
        ctx.layer = layer
        ctx.save_for_backward(x, lower, upper, log_scale, left, right, scale, weight)
        z = weight @ x.reshape(*x.shape[:2], math.prod(x.shape[2:]))  # (B, channels, positions)
        return z.reshape(x.shape), _everywhere(log_scale.sum(), x)

    @staticmethod
    def backward(ctx: Any, of_z: Tensor, of_log_det: Tensor) -> Any:
        x, lower, upper, log_scale, left, right, scale, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # where a second derivative follows, by autograd
            inputs = (x, lower, upper, log_scale)
            needed = [tensor for tensor in inputs if tensor.requires_grad]
            found = iter(torch.autograd.grad(ctx.layer.mixed(*inputs), needed, (of_z, of_log_det), create_graph=True))
            return None, *(next(found) if tensor.requires_grad else None for tensor in inputs)
        rows = of_z.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        of_product = (rows @ x.reshape(rows.shape).mT).sum(0).index_select(0, ctx.layer.order.argsort())
        of_right = left.T @ of_product
        of_log_scale = of_right.diagonal() * scale + math.prod(x.shape[2:]) * of_log_det.sum()
        of_x = (weight.T @ rows).reshape(x.shape)
        return None, of_x, (of_product @ right.T).tril(-1), of_right.triu(1), of_log_scale


class AffineCoupling(Transform):
    r"""An affine coupling: the first half of the features, or channels, scales and shifts the second half.

    .. math:: z_a = x_a, \qquad z_b = x_b \odot e^{s(x_a)} + t(x_a)

    The network gives s and t, twice as many channels as there are in :math:`x_b`; s is limited by a tanh. Of an odd
    number of channels the first half has one more. A conditional network gets the context as its second argument.

    References:
        | Density estimation using Real NVP (Dinh et al., 2017), https://arxiv.org/abs/1605.08803
    """

    def __init__(self, net: nn.Module, *, conditional: bool = False) -> None:
        super().__init__()
        self.net = net
        self.conditional = conditional

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        a, b = x.chunk(2, 1)
        s, t = self._scale_and_shift(a, context)
        return torch.cat([a, b * s.exp() + t], 1), s.flatten(1).sum(1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        a, b = z.chunk(2, 1)
        s, t = self._scale_and_shift(a, context)
        return torch.cat([a, (b - t) * (-s).exp()], 1)

    def _scale_and_shift(self, a: Tensor, context: Tensor | None) -> Mapped:
        s, t = full(self.net(a, *_given(self, context))).chunk(2, 1)
        return LIMIT * (s / LIMIT).tanh(), t


class Squeeze(Transform):
    """Every 2x2 pixels become one position with four times the channels; an order of values, which keeps volumes."""

    def forward(self, x: Tensor) -> Mapped:
        return F.pixel_unshuffle(x, 2), x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> Tensor:
        return F.pixel_shuffle(z, 2)


class Flatten(Transform):
    """Examples of this shape as vectors."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Mapped:
        return x.flatten(1), x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> Tensor:
        return z.reshape(-1, *self.shape)


class Split(Transform):
    """A multi-scale split: half of the channels are done, and the ``rest`` of the flow goes on with the others.

    The images are vectors: the ones of ``rest``, then the second half of the channels as they are. An affine coupling
    right before a split gives that half a Gaussian prior whose mean and variance depend on the first half.

    References:
        | Density estimation using Real NVP (Dinh et al., 2017), https://arxiv.org/abs/1605.08803

    Arguments:
        shape: The shape of an example, the channels first; there are at least two.
        rest: The transform of the first half of the channels, to vectors.
    """

    def __init__(self, shape: tuple[int, ...], rest: Transform) -> None:
        super().__init__()
        at_least(2, channels=shape[0])
        self.rest = rest
        self.conditional = rest.conditional
        self.done = (shape[0] // 2, *shape[1:])
        self.going_on = (shape[0] - self.done[0]) * math.prod(shape[1:])

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        a, b = x.chunk(2, 1)
        z, log_det = self.rest(a, *_given(self, context))
        return torch.cat([z, b.flatten(1)], 1), log_det

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        rest: Any = self.rest
        a, b = rest.inverse(z[:, : self.going_on], *_given(self, context)), z[:, self.going_on :]
        return torch.cat([a, b.reshape(-1, *self.done)], 1)

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat([self.rest.fit(a, *_given(self, context)), b.flatten(1)], 1)


def _of_channels(values: Tensor, x: Tensor) -> Tensor:
    """One value for each channel, in a shape that broadcasts over x."""
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _everywhere(log_det: Tensor, x: Tensor) -> Tensor:
    """The log-determinant of a map of the channels that is the same at every position, (B,)."""
    return (log_det * math.prod(x.shape[2:])).expand(x.shape[0])


def _given(transform: Any, context: Tensor | None) -> tuple[Tensor, ...]:
    """The context as an argument, for a transform that takes one."""
    if not transform.conditional:
        return ()
    if context is None:
        raise UsageError(f"{type(transform).__name__} is conditional: give it the context")
    return (context,)
