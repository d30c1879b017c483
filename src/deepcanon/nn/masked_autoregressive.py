"""Masked autoregressive transform: each value is scaled and shifted by a masked network of the values before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.fast_product import product
from deepcanon.core.fusing import can_fuse
from deepcanon.core.precision import full, in_full_precision
from deepcanon.nn.masked import MaskedLinear, autoregressive_mask, spread_degrees
from deepcanon.nn.transforms import Mapped, Transform

LIMIT = 5.0
"""The largest log-scale, so that no scale diverges and the inverse stays exact."""


class MaskedAutoregressive(Transform):
    r"""A step of a masked autoregressive flow (MAF).

    .. math:: z_d = x_d e^{a_d} + b_d, \qquad \log |\det f'(x)| = \sum_d a_d

    The log-scales :math:`a_d`, limited by a tanh, and the shifts :math:`b_d` depend on :math:`x_1, \dots, x_{d-1}` and
    the context, by a masked network. So the Jacobian is triangular, and all values are moved in one pass. The inverse
    finds one value after the other; it computes every unit of the network once, as soon as what it depends on is there,
    so that it costs as much as a pass. Its gradient solves the triangular system of the Jacobian.

    References:
        | Masked Autoregressive Flow for Density Estimation (Papamakarios et al., 2017), https://arxiv.org/abs/1705.07057

    Arguments:
        features: The dimension D of x.
        context: The number of values in a context that the network reads as well; 0 if there is none.
        hidden: The widths of the hidden layers of the masked network.
        backwards: Whether the order of the values is from the last to the first.
    """

    activation: Callable[[Tensor], Tensor] = staticmethod(relu)

    def __init__(
        self, features: int, context: int = 0, hidden: tuple[int, ...] = (64,), *, backwards: bool = False
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, context=context)
        for width in hidden:
            at_least(1, hidden=width)
        self.features, self.conditional, self.backwards = features, context > 0, backwards
        values = torch.arange(1, features + 1)
        values = values.flip(0) if backwards else values
        seen = torch.cat([torch.zeros(context, dtype=torch.long), values])  # the context has degree 0: all see it
        self.degrees = [spread_degrees(features, width, lowest=0 if context else 1) for width in hidden]
        self.layers = nn.ModuleList(
            MaskedLinear(autoregressive_mask(*degrees))
            for degrees in zip([seen, *self.degrees], self.degrees, strict=False)
        )
        self.output = MaskedLinear(autoregressive_mask([seen, *self.degrees][-1], values.repeat(2), strictly=True))
        self._initialize()

    @torch.no_grad()
    def _initialize(self) -> None:
        """Start away from the identity, which is a saddle where values are independent.

        There a step alone gains nothing; it only mixes the values, so that the next one gains.
        """
        hidden: list[Any] = list(self.layers)
        for layer in hidden:
            layer.reset_by_connections()
        self.output.bias.zero_()
        if not hidden:
            self.output.weight.mul_(0.1)  # a linear step only had to unlearn a larger start

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        if can_fuse(x):
            fused: Mapped = _Moved.apply(self, x, context, *self.parameters())  # type: ignore[no-untyped-call]
            return fused
        z, log_scale = self.moved(x, context)
        return z, log_scale.sum(-1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        if torch.is_grad_enabled():
            return self.inverse_with_log_det(z, context)[0]
        with in_full_precision(z):
            return self._solved(z, context)

    def inverse_with_log_det(self, z: Tensor, context: Tensor | None = None) -> Mapped:
        with in_full_precision(z):
            with torch.no_grad():
                x = self._solved(z, context)
            solved: Mapped = _Solved.apply(self, x, z, context, *self.parameters())  # type: ignore[no-untyped-call]
        return solved

    def moved(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """The image z and the log-scale of each value, (B, features) each."""
        log_scale, shift = self._log_scale_and_shift(full(self._network(x, context)))
        return torch.addcmul(shift, x, log_scale.exp()), log_scale

    def _network(self, x: Tensor, context: Tensor | None) -> Tensor:
        h = x if context is None else torch.cat([context, x], -1)
        for layer in self.layers:
            h = self.activation(layer(h))
        outputs: Tensor = self.output(h)
        return outputs

    def _log_scale_and_shift(self, outputs: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
        """The log-scales and the shifts by the outputs of the network, two for each value along ``dim``."""
        log_scale, shift = outputs.chunk(2, dim)
        return LIMIT * (log_scale / LIMIT).tanh(), shift

    def _activation_backward(self, gradient: Tensor, activated: Tensor) -> Tensor:
        """The gradient before the activation, by that after it and its value."""
        before: Tensor = torch.ops.aten.threshold_backward(gradient, activated, 0)
        return before

    def _outputs_backward(self, outputs: Tensor, log_scale: Tensor, of_log_scale: Tensor, of_shift: Tensor) -> Tensor:
        """The gradient of the network's outputs, by those of the log-scales and the shifts that follow from them."""
        return torch.cat([torch.ops.aten.tanh_backward(of_log_scale, log_scale / LIMIT), of_shift], -1)

    def _solved(self, z: Tensor, context: Tensor | None) -> Tensor:
        """The x that is mapped to z, value by value; values are rows here, so that those at hand lie together."""
        layers: list[Any] = [*self.layers, self.output]
        weights: list[Tensor] = [layer.masked_weight for layer in layers]
        biases: list[Tensor] = [layer.bias.unsqueeze(1) for layer in layers]
        known = weights[0].shape[1] - self.features
        weights[-1], biases[-1] = (_in_pairs(part, self.backwards) for part in (weights[-1], biases[-1]))
        values = z.T
        if self.backwards:
            values = values.flip(0)
            weights[0] = torch.cat([weights[0][..., :known], weights[0][..., known:].flip(-1)], -1)
        inputs = z.new_zeros(known + self.features, z.shape[0])
        if context is not None:
            inputs[:known] = context.T
        units = [z.new_zeros(len(degrees), z.shape[0]) for degrees in self.degrees]
        steps = torch.arange(1, self.features + 1)
        ends = [torch.searchsorted(degrees, steps).tolist() for degrees in self.degrees]  # where degrees below d end
        for d in range(self.features):
            below, count = inputs, known + d
            for h, weight, bias, end in zip(units, weights, biases, ends, strict=False):
                new = slice(end[d - 1] if d else 0, end[d])  # the units whose last input was found just now
                if new.start < new.stop:
                    h[new] = self.activation(torch.addmm(bias[new], weight[new, :count], below[:count]))
                below, count = h, end[d]
            outputs = torch.addmm(biases[-1][d], weights[-1][d, :, :count], below[:count])
            log_scale, shift = self._log_scale_and_shift(outputs, 0)
            inputs[known + d] = ((values[d] - shift) * (-log_scale).exp())[0]
        x = inputs[known:]
        return (x.flip(0) if self.backwards else x).T.contiguous()


def _in_pairs(rows: Tensor, backwards: bool) -> Tensor:
    """The rows of the last layer as pairs, one for each value in their order, (features, 2, ...)."""
    pairs: Tensor = rows.unflatten(0, (2, -1)).transpose(0, 1)
    return (pairs.flip(0) if backwards else pairs).contiguous()


class _Plain(nn.Module):
    """A step by the operations that it consists of."""

    def __init__(self, step: MaskedAutoregressive) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.step.moved(x, context)


class _Passed(NamedTuple):
    """A pass through the network of a step: what its gradient is computed from."""

    x: Tensor
    context: Tensor | None
    outputs: Tensor
    log_scale: Tensor
    scale: Tensor
    parameters: Sequence[Tensor]
    """The weight and the bias of each layer, which need not be the step's own."""
    inputs: Sequence[Tensor]
    """Those of each layer."""
    weights: Sequence[Tensor]
    """The masked weights of each layer."""


def _passed(ctx: Any, step: Any, x: Tensor, context: Tensor | None, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Log-scale, scale and shift of each value with these parameters; the pass is saved for :func:`_saved`."""
    layers: list[Any] = [*step.layers, step.output]
    weights = [layer.mask * weight for layer, weight in zip(layers, parameters[::2], strict=True)]
    h = x if context is None else torch.cat([context, x], -1)
    inputs = [h]
    for weight, bias in zip(weights[:-1], parameters[1:-1:2], strict=True):
        h = step.activation(product(h, weight.T, bias))
        inputs.append(h)
    outputs = product(h, weights[-1].T, parameters[-1])
    log_scale, shift = step._log_scale_and_shift(outputs)
    scale = log_scale.exp()
    ctx.step = step
    ctx.save_for_backward(x, context, outputs, log_scale, scale, *parameters, *inputs, *weights)
    return [log_scale, scale, shift]


def _saved(ctx: Any) -> _Passed:
    """The pass that was saved; by autograd, which frees it as soon as it has been used."""
    x, context, outputs, log_scale, scale, *rest = ctx.saved_tensors
    count = len(rest) // 4
    parameters, inputs, weights = rest[: 2 * count], rest[2 * count : 3 * count], rest[3 * count :]
    return _Passed(x, context, outputs, log_scale, scale, parameters, inputs, weights)


def _backward(step: MaskedAutoregressive, at: _Passed, of_log_scale: Tensor, of_shift: Tensor) -> Iterator[Tensor]:
    """The gradients of what each layer gives, from the last to the first, and then that of the network's input."""
    gradient = step._outputs_backward(at.outputs, at.log_scale, of_log_scale, of_shift)
    yield gradient
    for h, weight in zip(at.inputs[:0:-1], at.weights[:0:-1], strict=True):
        gradient = step._activation_backward(product(gradient, weight), h)
        yield gradient
    yield product(gradient, at.weights[0])


def _of_parameters(step: MaskedAutoregressive, at: _Passed, of_layers: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of weights and biases in their order, by those of what each layer gives, the last one first."""
    layers: list[Any] = [*step.layers, step.output]
    found = []
    for gradient, h, layer in zip(of_layers, at.inputs[::-1], layers[::-1], strict=True):
        found += [gradient.sum(0), product(gradient.T, h).mul_(layer.mask)]
    return found[::-1]


class _Moved(torch.autograd.Function):
    """A step with its log-determinant as one operation, whose gradient is written out: a third faster than autograd."""

    @staticmethod
    def forward(ctx: Any, step: Any, x: Tensor, context: Tensor | None, *parameters: Tensor) -> Mapped:
        log_scale, scale, shift = _passed(ctx, step, x, context, parameters)
        return torch.addcmul(shift, x, scale), log_scale.sum(-1)

    @staticmethod
    def backward(ctx: Any, of_z: Tensor, of_log_det: Tensor) -> Any:
        at = _saved(ctx)
        if torch.is_grad_enabled():  # where a second derivative follows, by autograd
            names = (f"step.{name}" for name, _ in ctx.step.named_parameters())
            given = dict(zip(names, at.parameters, strict=True))
            z, scales = torch.func.functional_call(_Plain(ctx.step), given, (at.x, at.context))
            wanted = [at.x, *(() if at.context is None else (at.context,)), *at.parameters]
            of_x, *found = torch.autograd.grad(
                (z, scales.sum(-1)), wanted, (of_z, of_log_det), create_graph=True, allow_unused=True
            )
            return None, of_x, *(() if at.context is not None else (None,)), *found
        of_log_scale = torch.addcmul(of_log_det.unsqueeze(-1), of_z * at.x, at.scale)
        *of_layers, of_input = _backward(ctx.step, at, of_log_scale, of_z)
        known = of_input.shape[-1] - at.x.shape[-1]
        of_x = torch.addcmul(of_input[..., known:], of_z, at.scale)
        of_context = None if at.context is None else of_input[..., :known]
        return None, of_x, of_context, *_of_parameters(ctx.step, at, of_layers)


class _Solved(torch.autograd.Function):
    """The solution x of f(x) = z with its log-determinant, and their gradients by the implicit function theorem."""

    @staticmethod
    def forward(ctx: Any, step: Any, x: Tensor, z: Tensor, context: Tensor | None, *parameters: Tensor) -> Mapped:
        return x.clone(), -_passed(ctx, step, x, context, parameters)[0].sum(-1)

    @staticmethod
    def backward(ctx: Any, of_x: Tensor, of_log_det: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise UsageError("the inverse of an autoregressive step has first derivatives only; train without others")
        at = _saved(ctx)
        known = at.inputs[0].shape[-1] - at.x.shape[-1]
        moving, shrink = at.x * at.scale, (-at.log_scale).exp()

        def pulled(v: Tensor) -> list[Tensor]:
            """The gradients in the network and of x, of f at x times v and the log-determinant."""
            *of_layers, of_input = _backward(ctx.step, at, torch.addcmul(of_log_det.unsqueeze(-1), v, moving), v)
            return [*of_layers, of_input, torch.addcmul(of_input[..., known:], v, at.scale)]

        # v, the gradient of z, pulls back to that of x: the map is triangular with the scales as its diagonal, so that
        # so many steps are exact
        v, change = torch.zeros_like(of_x), of_x * shrink
        for _ in range(at.x.shape[-1]):
            v = v + change
            *of_layers, of_input, back = pulled(v)
            change = (of_x - back) * shrink
            if not float(change.abs().max()) > torch.finfo(v.dtype).eps * float(v.abs().max()):
                break
        of_context = None if at.context is None else -of_input[..., :known]
        return None, None, v, of_context, *(-found for found in _of_parameters(ctx.step, at, of_layers))
