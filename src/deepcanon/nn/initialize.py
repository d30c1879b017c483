r"""Initializations by name: the weights that training starts from.

A weight that is drawn with mean 0 and variance :math:`\sigma^2` makes out of :math:`N` independent inputs a sum of
variance :math:`N \sigma^2\, E[h^2]`. So signals keep their size on the way forward with
:math:`\sigma^2 = g^2 / N_{in}`, gradients on the way back with :math:`g^2 / N_{out}`; the gain :math:`g` makes up for
what the activation takes away.

========================  ===================================================================  ========================
name                      weights                                                              options
========================  ===================================================================  ========================
``zero``                  0
``constant``              :math:`c`                                                            ``value=1``
``signs``                 :math:`\pm c`, a fair coin each                                      ``value=1``
``normal``                :math:`N(0, \sigma^2)`                                               ``std=1``
``uniform``               :math:`U(-a, a)`                                                     ``bound=1``
``fan_in``                :math:`U(\pm g / \sqrt{N_{in}})`, torch's own for linear layers      ``gain=1``
``xavier_normal``         :math:`N(0, 2 g^2 / (N_{in} + N_{out}))`                             ``gain=1``
``xavier_uniform``        :math:`U(\pm g \sqrt{6 / (N_{in} + N_{out})})`                       ``gain=1``
``kaiming_normal``        :math:`N(0, g^2 / N)`                                                ``gain=relu,mode=fan_in``
``kaiming_uniform``       :math:`U(\pm g \sqrt{3 / N})`                                        ``gain=relu,mode=fan_in``
========================  ===================================================================  ========================

A gain is a number, or an activation by the name that ``torch.nn.init.calculate_gain`` knows it by.

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
"""Layers whose weights have the inputs first."""


@torch.no_grad()
def initialize(module: nn.Module, text: str, generator: Generator | None = None) -> None:
    """Give all weights inside ``module`` new values, as the initialization of this name draws them.

    Weights are the parameters called so that have two or more dimensions: of linear maps, convolutions, embeddings,
    recurrences. The biases beside them become 0; what else there is, such as the gain of a normalization, stays.

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
    """Over how many inputs an output of this weight sums, and to how many outputs an input goes.

    >>> fans(nn.Conv2d(4, 8, kernel_size=3).weight)
    (36, 72)
    """
    places = weight.shape[2:].numel()
    return weight.shape[1] * places, weight.shape[0] * places


def own_weights(layer: nn.Module) -> list[str]:
    """The names of a layer's own weights: parameters called so that have two or more dimensions.

    >>> own_weights(nn.GRU(2, 3)), own_weights(nn.LayerNorm(4))
    (['weight_ih_l0', 'weight_hh_l0'], [])
    """
    names = (*dict(layer.named_parameters(recurse=False)), *getattr(layer, "parametrizations", {}))
    return [name for name in names if "weight" in name and getattr(layer, name).ndim > 1]


def _filling(text: str) -> Callable[[Tensor], None]:
    """What fills a weight with the values of this initialization."""
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
    for place, layer in module.named_modules():
        if "parametrizations" not in place.split("."):  # what a weight is made of; the weight itself is the layer's
            yield from ((layer, name) for name in own_weights(layer))


def _put(layer: nn.Module, name: str, value: Tensor) -> None:
    if name in dict(layer.named_parameters(recurse=False)):
        getattr(layer, name).copy_(value)
    else:
        setattr(layer, name, value)  # torch sets what the weight is made of


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
