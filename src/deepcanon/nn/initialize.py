r"""Weight initialization by name: Xavier (Glorot), Kaiming (He), normal, uniform and others.

Weights of mean 0 and variance :math:`\sigma^2` turn :math:`N` independent inputs :math:`h` into a sum of variance
:math:`N \sigma^2\, E[h^2]`. So activations keep their variance in the forward pass with
:math:`\sigma^2 = g^2 / N_{in}`, and gradients theirs in the backward pass with :math:`g^2 / N_{out}`; the gain
:math:`g` makes up for what the activation function removes.

========================  ===================================================================  ========================
name                      weights                                                              options
========================  ===================================================================  ========================
``zero``                  0
``constant``              :math:`c`                                                            ``value=1``
``signs``                 :math:`\pm c`, each with probability 1/2                             ``value=1``
``normal``                :math:`N(0, \sigma^2)`                                               ``std=1``
``uniform``               :math:`U(-a, a)`                                                     ``bound=1``
``fan_in``                :math:`U(\pm g / \sqrt{N_{in}})`, torch's own for linear layers      ``gain=1``
``xavier_normal``         :math:`N(0, 2 g^2 / (N_{in} + N_{out}))`                             ``gain=1``
``xavier_uniform``        :math:`U(\pm g \sqrt{6 / (N_{in} + N_{out})})`                       ``gain=1``
``kaiming_normal``        :math:`N(0, g^2 / N)`                                                ``gain=relu,mode=fan_in``
``kaiming_uniform``       :math:`U(\pm g \sqrt{3 / N})`                                        ``gain=relu,mode=fan_in``
========================  ===================================================================  ========================

A gain is a number, or the name of an activation as in ``torch.nn.init.calculate_gain``.

References:
    | Efficient backprop (LeCun et al., 1998), https://doi.org/10.1007/3-540-49430-8_2
    | Understanding the difficulty of training deep feedforward neural networks (Glorot and Bengio, 2010),
      https://proceedings.mlr.press/v9/glorot10a.html
    | Delving deep into rectifiers (He et al., 2015), https://arxiv.org/abs/1502.01852
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import UsageError, drawing_from
from deepcanon.core.checks import one_of
from deepcanon.core.options import check_options, choose, parse

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
"""Transposed convolutions, whose weights have the inputs first."""


@torch.no_grad()
def initialize(module: nn.Module, text: str, generator: Generator | None = None) -> None:
    """Initialize all weights inside ``module`` by the initialization of this name.

    Weights are the parameters called so that have two or more dimensions: of linear layers, convolutions, embeddings,
    recurrent layers. Their biases become 0; other parameters, such as the gain of a normalization, stay.

    Arguments:
        module: Any module.
        text: The name with its options, such as ``kaiming_normal:gain=tanh``.
        generator: Where random numbers come from; without one, torch's own.

    >>> layer = nn.Linear(3, 2)
    >>> initialize(layer, "constant:value=0.5")
    >>> layer(torch.ones(3)).tolist()
    [1.5, 1.5]
    """
    fill = _filling(text)
    weights = list(_weights(module))
    if not weights:
        raise UsageError(f"{type(module).__name__} has no weights to initialize")
    with drawing_from(generator):
        for layer, name in weights:
            weight = torch.empty_like(getattr(layer, name))
            fill(weight.transpose(0, 1) if isinstance(layer, TRANSPOSED) else weight)
            _put(layer, name, weight)
            bias = name.replace("weight", "bias")
            if isinstance(getattr(layer, bias, None), Tensor):
                _put(layer, bias, torch.zeros_like(getattr(layer, bias)))


def fans(weight: Tensor) -> tuple[int, int]:
    """The fan-in and the fan-out of a weight: how many inputs an output sums over, and how many outputs an input has.

    >>> fans(nn.Conv2d(4, 8, kernel_size=3).weight)
    (36, 72)
    """
    kernel = weight.shape[2:].numel()
    return weight.shape[1] * kernel, weight.shape[0] * kernel


def own_weights(layer: nn.Module) -> list[str]:
    """The names of a layer's own weights: parameters called so that have two or more dimensions.

    >>> own_weights(nn.GRU(2, 3)), own_weights(nn.LayerNorm(4))
    (['weight_ih_l0', 'weight_hh_l0'], [])
    """
    names = (*dict(layer.named_parameters(recurse=False)), *getattr(layer, "parametrizations", {}))
    return [name for name in names if "weight" in name and getattr(layer, name).ndim > 1]


def _filling(text: str) -> Callable[[Tensor], None]:
    """A function that fills a weight with the values of this initialization."""
    name, options = parse(text)
    choose("initialization", name, _NAMES)
    check_options(f"the initialization {name}", _NAMES[name], options, own=("weight",))

    def fill(weight: Tensor) -> None:
        try:
            _NAMES[name](weight, **options)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(f"the initialization {text!r} was refused: {error}") from error

    return fill


def _weights(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for path, layer in module.named_modules():
        if "parametrizations" not in path.split("."):  # the parts of a weight; the weight itself is the layer's
            yield from ((layer, name) for name in own_weights(layer))


def _put(layer: nn.Module, name: str, value: Tensor) -> None:
    if name in dict(layer.named_parameters(recurse=False)):
        getattr(layer, name).copy_(value)
    else:
        setattr(layer, name, value)  # torch sets the parametrization of the weight


def _zero(weight: Tensor) -> None:
    nn.init.zeros_(weight)


def _signs(weight: Tensor, value: float = 1.0) -> None:
    weight.bernoulli_(0.5).mul_(2).sub_(1).mul_(value)


def _constant(weight: Tensor, value: float = 1.0) -> None:
    nn.init.constant_(weight, value)


def _normal(weight: Tensor, std: float = 1.0) -> None:
    nn.init.normal_(weight, std=std)


def _uniform(weight: Tensor, bound: float = 1.0) -> None:
    nn.init.uniform_(weight, -bound, bound)


def _fan_in(weight: Tensor, gain: float | str = 1.0) -> None:
    _uniform(weight, _number(gain) / math.sqrt(fans(weight)[0]))


def _xavier_normal(weight: Tensor, gain: float | str = 1.0) -> None:
    nn.init.xavier_normal_(weight, _number(gain))


def _xavier_uniform(weight: Tensor, gain: float | str = 1.0) -> None:
    nn.init.xavier_uniform_(weight, _number(gain))


def _kaiming_normal(weight: Tensor, gain: float | str = "relu", mode: str = "fan_in") -> None:
    _normal(weight, _kaiming(weight, gain, mode))


def _kaiming_uniform(weight: Tensor, gain: float | str = "relu", mode: str = "fan_in") -> None:
    _uniform(weight, math.sqrt(3) * _kaiming(weight, gain, mode))


def _kaiming(weight: Tensor, gain: float | str, mode: str) -> float:
    """The standard deviation; torch's own Kaiming takes no gain but that of a named activation."""
    one_of(("fan_in", "fan_out"), mode=mode)
    fan_in, fan_out = fans(weight)
    return _number(gain) / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def _number(gain: float | str) -> float:
    return nn.init.calculate_gain(gain) if isinstance(gain, str) else float(gain)  # type: ignore[arg-type]


_NAMES: dict[str, Callable[..., None]] = {
    "zero": _zero,
    "constant": _constant,
    "signs": _signs,
    "normal": _normal,
    "uniform": _uniform,
    "fan_in": _fan_in,
    "xavier_normal": _xavier_normal,
    "xavier_uniform": _xavier_uniform,
    "kaiming_normal": _kaiming_normal,
    "kaiming_uniform": _kaiming_uniform,
}
