"""From convolution to self-attention, step by step: each step equals the one before where the two meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.nn.attention import MultiHeadAttention, attention_weights
from deepcanon.nn.positions import RelativeBias
from deepcanon.pictures.style import MUTED, SHADES, dress, new_figure
from deepcanon.studies._helpers.concluded import concluded

STEPS = {
    "tabulated": "a table of weights by distance",
    "continuous": "a function of the distance",
    "non-local": "a function of the contents",
    "softmax": "a softmax of their products",
    "distance only": "a softmax of a bias by distance",
}
"""The weights of each step."""


def mixed(weights: Tensor, values: Tensor) -> Tensor:
    """The general form, y_i = sum over j of w_ij v_j, of values (..., n, d)."""
    return weights @ values


def by_distance(table: Tensor, length: int) -> Tensor:
    """The weights w_ij = g(j - i) of a table for the distances from -r to r, zero beyond, (length, length)."""
    reach = len(table) // 2
    distance = torch.arange(length) - torch.arange(length).unsqueeze(1)
    return torch.where(distance.abs() <= reach, table[distance.clamp(-reach, reach) + reach], 0)


def convolution_to_attention(*, length: int = 24, width: int = 8, reach: int = 3, seed: int = 0) -> Finding:
    r"""The steps from a convolution to self-attention, with the equality that joins each to what is known.

    All of them are :math:`y_i = \sum_j w_{ij}\, V x_j`, with weights that say more and more of the contents:

    .. math:: w_{ij} = g_{j-i} \;\rightarrow\; g(j - i) \;\rightarrow\; \alpha(x_i, x_j) \;\rightarrow\;
              \frac{e^{q_i \cdot k_j / \sqrt d}}{\sum_l e^{q_i \cdot k_l / \sqrt d}}

    A table of weights by distance is torch's ``Conv1d`` with kernels :math:`g_\tau V`. A continuous function of the
    distance, here a small network, is the same convolution where it is tabulated, and has a value between two positions
    too. A non-local mean takes weights from the contents and none from the places: it is permutation equivariant, and
    with a Gaussian kernel it is the Nadaraya-Watson estimate. The softmax kernel is attention, that of torch with these
    weights. And attention whose scores are a bias by distance alone is a convolution again, its kernel normalized.

    References:
        | Non-local Neural Networks (Wang et al., 2018), https://arxiv.org/abs/1711.07971
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
        | On the Relationship between Self-Attention and Convolutional Layers (Cordonnier et al., 2020),
          https://arxiv.org/abs/1911.03584

    Arguments:
        length: The number of positions n.
        width: The number of values d at each.
        reach: The largest distance in the table.
        seed: The seed of values and weights.
    """
    at_least(1, reach=reach, width=width)
    at_least(2 * reach + 2, length=length)
    generator = Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x, other = drawn(length, width), drawn(length, width)
    value, query, key = (drawn(width, width) / width**0.5 for _ in range(3))
    table = drawn(2 * reach + 1)
    hidden, phase, out = 3 * drawn(16), drawn(16), drawn(16) / 4

    def kernel(distance: Tensor) -> Tensor:
        """The continuous g: a small network of the distance in units of the reach."""
        return (distance.unsqueeze(-1) / reach * hidden + phase).tanh() @ out

    def weights_of(name: str, x: Tensor) -> Tensor:
        if name == "tabulated":
            return by_distance(table, len(x))
        if name == "continuous":
            return by_distance(kernel(torch.arange(-reach, reach + 1.0, dtype=torch.float64)), len(x))
        if name == "non-local":
            near = torch.exp(-torch.cdist(x, x).square() / 2 / width)
            return near / near.sum(1, keepdim=True)
        if name == "softmax":
            return attention_weights(x @ query, x @ key)
        return attention_weights(torch.zeros_like(x), x, bias=by_distance_bias(table, len(x)))

    peers = {
        "tabulated": _conv1d(x, table, value),
        "continuous": _conv1d(x, kernel(torch.arange(-reach, reach + 1.0, dtype=torch.float64)), value),
        "non-local": _nadaraya_watson(x, value),
        "softmax": scaled_dot_product_attention(x @ query, x @ key, x @ value),
        "distance only": _by_layer(x, table, value),
    }
    order = torch.randperm(length, generator=generator)
    steps = {}
    for name in STEPS:
        weights = weights_of(name, x)
        output = mixed(weights, x @ value)
        moved = mixed(weights_of(name, x.roll(1, 0)), x.roll(1, 0) @ value)
        inner = slice(reach + 1, length - reach)  # what the borders do not touch
        permuted = mixed(weights_of(name, x[order]), x[order] @ value)
        steps[name] = {
            "equality": float((output - peers[name]).abs().max()),
            "shift": float((moved[inner] - output.roll(1, 0)[inner]).abs().max()),
            "permutation": float((permuted - output[order]).abs().max()),
            "contents": float((weights_of(name, other) - weights).abs().max()),
            "reached": int((weights[length // 2].abs() > 1e-12).sum()),
            "weights": weights.tolist(),
        }
    settings = f"{counted(length, 'position')} of width {width}, reach {reach}, double precision, seed {seed}"
    return concluded({"settings": settings, "steps": steps}, sentences, draw)


def by_distance_bias(table: Tensor, length: int) -> Tensor:
    """A bias of the scores that is a table by distance, minus infinity beyond it."""
    near = by_distance(torch.ones_like(table), length) > 0
    return by_distance(table, length).masked_fill(~near, -torch.inf)


def _conv1d(x: Tensor, table: Tensor, value: Tensor) -> Tensor:
    """torch's convolution with the kernels g V."""
    layer = nn.Conv1d(x.shape[1], x.shape[1], len(table), padding=len(table) // 2, bias=False, dtype=x.dtype)
    with torch.no_grad():
        layer.weight.copy_(value.T.unsqueeze(2) * table)
        found: Tensor = layer(x.T.unsqueeze(0))[0].T
    return found


def _nadaraya_watson(x: Tensor, value: Tensor) -> Tensor:
    """The kernel regression of the values on the contents, by scikit-learn's Gaussian kernel."""
    from sklearn.metrics.pairwise import rbf_kernel

    kernel = torch.from_numpy(rbf_kernel(x.numpy(), gamma=1 / (2 * x.shape[1])))
    return kernel @ (x @ value) / kernel.sum(1, keepdim=True)


def _by_layer(x: Tensor, table: Tensor, value: Tensor) -> Tensor:
    """A convolution with the normalized kernel, where the table has a whole window; our layer with a relative bias."""
    reach = len(table) // 2
    layer = MultiHeadAttention(x.shape[1], heads=1, bias=False).to(x)
    bias = RelativeBias(heads=1, reach=reach).to(x)
    with torch.no_grad():
        layer.projection.weight.copy_(torch.cat([torch.zeros_like(value), torch.zeros_like(value), value.T]))
        layer.output.weight.copy_(torch.eye(x.shape[1]))
        bias.table.copy_(table.unsqueeze(0))
        near = by_distance(torch.ones_like(table), len(x)) > 0
        found: Tensor = layer(x.unsqueeze(0), mask=near, bias=bias(len(x), len(x)))[0]
        middle = _conv1d(x, table.softmax(0), value)[reach : len(x) - reach]
        found[reach : len(x) - reach] = middle
    return found


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What each step equals, and which symmetries it has."""
    steps = numbers["steps"]
    worst = max(step["equality"] for step in steps.values())
    first = f"From convolution to attention in {counted(len(steps), 'step')}, each equal to its peer up to {worst:.1g}"
    peers = {
        "tabulated": "torch's Conv1d",
        "continuous": "torch's Conv1d of the tabulated kernel",
        "non-local": "the kernel regression of scikit-learn's kernel",
        "softmax": "torch's attention",
        "distance only": "a layer with a relative bias, and Conv1d away from the borders",
    }
    others = [
        f"{name.capitalize()}, {STEPS[name]}: equals {peers[name]} up to {step['equality']:.1g}; a shift of the input "
        f"{'shifts' if _holds(step['shift']) else 'changes'} the output, a permutation "
        f"{'permutes' if _holds(step['permutation']) else 'changes'} it; other contents "
        f"{'leave' if _holds(step['contents']) else 'change'} the weights; a position sees {step['reached']}."
        for name, step in steps.items()
    ]
    return (f"{first}.", *others)


def _holds(error: float) -> bool:
    return error < 1e-9


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The weights of each step."""
    steps = numbers["steps"]
    figure = new_figure(2.75 * len(steps), 4.0)
    for axes, (name, step) in zip(figure.subplots(1, len(steps)), steps.items(), strict=True):
        _panel(axes, name, step)
    return figure


def _panel(axes: Axes, name: str, step: Mapping[str, Any]) -> None:
    weights = torch.tensor(step["weights"])
    axes.imshow((weights / weights.abs().max()).abs().numpy(), cmap=SHADES, vmin=0, vmax=1)
    dress(axes, f"{name.capitalize()}:\n{STEPS[name]}", "position j", "position i", grid=False)
    axes.set_xticks([])
    axes.set_yticks([])
    facts = {
        "peer, error": f"{step['equality']:.0e}",
        "shift equivariant": "yes" if _holds(step["shift"]) else "no",
        "permutation equivariant": "yes" if _holds(step["permutation"]) else "no",
        "depends on contents": "no" if _holds(step["contents"]) else "yes",
    }
    words = "\n".join(f"{key}: {fact}" for key, fact in facts.items())
    axes.text(0, -0.14, words, transform=axes.transAxes, fontsize=8, color=MUTED, va="top")
