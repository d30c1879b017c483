"""The lottery ticket hypothesis: pruned networks trained again from their initial weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.train import fit
from deepcanon.train.randomness import kept, seed_from, seed_torch

ARMS = {
    "ticket": "winning ticket: found mask, initial weights",
    "anew": "found mask, new initial weights",
    "random": "random mask, initial weights",
}
"""The networks that are trained at each sparsity, by name."""

Masks = dict[str, Tensor]


def lottery(
    mlp: type[Model[Any]],
    pruning: type[Model[Any]],
    *,
    data: str = "digits",
    hidden: int = 100,
    kept_shares: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.03, 0.02),
    seeds: int = 5,
    steps: int = 200,
    lr: float = 0.005,
    seed: int = 0,
) -> Finding:
    r"""Lottery tickets: pruned networks trained from their initial weights, compared with new weights and random masks.

    .. math:: m = \mathbb 1\bigl[\lvert \theta_T \rvert > t\bigr]: \qquad
              \text{ticket}\; m \odot \theta_0, \qquad \text{anew}\; m \odot \theta_0', \qquad
              \text{random}\; \pi(m) \odot \theta_0

    A network is trained from :math:`\theta_0`, and its largest weights are the mask m. Three sparse networks are then
    trained with the same data, in the same order, for as many steps: the mask with the initial weights, the mask with
    new initial weights from the same distribution, and the initial weights with the mask shuffled within each layer.
    All is repeated with other seeds and compared seed by seed.

    References:
        | The Lottery Ticket Hypothesis: Finding Sparse, Trainable Neural Networks (Frankle and Carbin, 2019),
          https://arxiv.org/abs/1803.03635

    Arguments:
        mlp: The network.
        pruning: The method that prunes, and keeps pruned weights at zero.
        data: The data set, of labeled examples with classes.
        hidden: The hidden units of the network.
        kept_shares: Which shares of the weights to keep.
        seeds: How many networks to draw.
        steps: The steps of each training.
        lr: The learning rate.
        seed: The seed of all random numbers.
    """
    if not all(0 < share < 1 for share in kept_shares) or not kept_shares:
        raise UsageError(f"kept_shares are shares of the weights, above 0 and below 1 (got {kept_shares})")
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    if "classes" not in loaded.sizes:
        raise UsageError(f"this study needs examples with classes; {data} has none")

    def network(draw: int) -> Model[Any]:
        with kept():
            seed_torch(draw)
            return mlp(features=loaded.train.x[0].numel(), classes=loaded.sizes["classes"], hidden=(hidden,))

    def trained(model: Model[Any], order: int) -> dict[str, float]:
        result = fit(model, loaded, quiet=True, steps=steps, lr=lr, seed=order, keep_weights="last")
        return {name: result.test[name] for name in ("accuracy", "nll")}

    rows: list[dict[str, Any]] = []
    for number in range(seeds):
        first, other, order = (seed_from(seed, number, what) for what in ("first", "other", "order"))
        whole = network(first)
        rows.append({"seed": number, "arm": "whole", "kept": 1.0, **trained(whole, order)})
        for share in kept_shares:
            masks = largest(pruning(whole, sparsity=1 - share, scope="global"), 1 - share)
            for arm in ARMS:
                start = network(other if arm == "anew" else first)
                method: Any = pruning(start, sparsity=1 - share)
                method.keep(shuffled(masks, order) if arm == "random" else masks)
                rows.append({"seed": number, "arm": arm, "kept": share, **trained(method, order)})
    settings = (
        f"{data}, one hidden layer of {counted(hidden, 'unit')}; {counted(steps, 'step')} of Adam at rate {lr:g} for "
        f"all, {max(kept_shares):g} to {min(kept_shares):g} of the weights kept; {counted(seeds, 'seed')}, {CERTAIN} "
        "over them"
    )
    numbers = {
        "settings": settings, "data": data, "seeds": seeds, "weights": _weights(network(0)),
        "kept": list(kept_shares), "rows": rows, "gaps": _gaps(rows, kept_shares),
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def largest(method: Any, sparsity: float) -> Masks:
    """The masks of magnitude pruning at this sparsity; the weights themselves are left as they are."""
    model: Model[Any] = method.model
    values = {name: value.detach().clone() for name, value in model.named_parameters()}
    method.prune(sparsity)
    masks = {name: mask.clone() for name, mask in method.masks.items()}
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(values[name])
    return masks


def shuffled(masks: Mapping[str, Tensor], seed: int) -> Masks:
    """Masks that keep as many weights of each layer, at random.

    >>> shuffled({"weight": torch.tensor([[True, False], [False, False]])}, 0)["weight"].sum()
    tensor(1)
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        name: mask.flatten()[torch.randperm(mask.numel(), generator=generator)].view_as(mask)
        for name, mask in masks.items()
    }


def _weights(model: Model[Any]) -> int:
    return sum(value.numel() for value in model.parameters() if value.ndim >= 2)


def _of(rows: list[dict[str, Any]], arm: str) -> list[float]:
    return [row["accuracy"] for row in rows if row["arm"] == arm]


def _values(rows: list[dict[str, Any]], arm: str, share: float, metric: str = "accuracy") -> list[float]:
    return [row[metric] for row in rows if row["arm"] == arm and row["kept"] == share]


def _gaps(rows: list[dict[str, Any]], shares: Sequence[float]) -> dict[str, list[list[float]]]:
    """The difference of the negative log-likelihood of each other arm from the ticket's, for each share and seed."""
    gaps: dict[str, list[list[float]]] = {"anew": [], "random": []}
    for arm, of_shares in gaps.items():
        for share in shares:
            pairs = zip(_values(rows, arm, share, "nll"), _values(rows, "ticket", share, "nll"), strict=True)
            of_shares.append([theirs - own for theirs, own in pairs])
    return gaps


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What the mask and the initial weights are worth, paired by seeds."""
    rows, shares = numbers["rows"], numbers["kept"]
    gaps = _gaps(rows, shares)

    def mean(arm: str, share: float) -> float:
        values = _values(rows, arm, share)
        return sum(values) / len(values)

    clearest = max(shares, key=lambda share: mean("ticket", share) - mean("anew", share))
    wins = {arm: sum(gap > 0 for of_share in gaps[arm] for gap in of_share) for arm in gaps}
    pairs = len(shares) * numbers["seeds"]
    worth = {arm: interval([fmean(of_seed) for of_seed in zip(*gaps[arm], strict=True)]) for arm in gaps}
    return (
        f"Over all sparsities, tickets have a negative log-likelihood {_lower(worth['anew'])} the same masks with new "
        f"initial weights, and {_lower(worth['random'])} random masks.",
        f"The whole network of {counted(numbers['weights'], 'weight')} reaches {fmean(_of(rows, 'whole')):.1%} on "
        "test data.",
        f"The ticket leads most clearly with {clearest:.0%} of them: it reaches {mean('ticket', clearest):.1%}, the "
        f"same mask with new initial weights {mean('anew', clearest):.1%}, a random mask "
        f"{mean('random', clearest):.1%}.",
        f"Paired by seed and sparsity, the ticket has the lower negative log-likelihood in {wins['anew']} of {pairs} "
        f"pairs with new initial weights, and in {wins['random']} of {pairs} with random masks.",
    )


def _lower(worth: tuple[float, float]) -> str:
    """By how much the ticket's is lower, in words."""
    middle, width = worth
    if abs(middle) <= width:
        return f"that cannot be told apart ({middle:+.3f} ± {width:.3f} nats) from that of"
    return f"{abs(middle):.3f} ± {width:.3f} nats {'lower' if middle > 0 else 'higher'} than that of"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The accuracies by sparsity, and the differences from the ticket of the same seed."""
    figure = new_figure(10.5, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    rows, shares = numbers["rows"], numbers["kept"]
    whole = _of(rows, "whole")
    left.axhspan(min(whole), max(whole), color=MUTED, alpha=0.2, linewidth=0)
    left.axhline(
        sum(whole) / len(whole), color=MUTED, linewidth=1, label=f"all {counted(numbers['weights'], 'weight')}"
    )
    colors = dict(zip(ARMS, PALETTE, strict=False))
    for arm, words in ARMS.items():
        values = [_values(rows, arm, share) for share in shares]
        left.plot(
            shares, [sum(each) / len(each) for each in values], "o-", color=colors[arm], markersize=4, label=words
        )
        low, high = [min(each) for each in values], [max(each) for each in values]
        left.fill_between(shares, low, high, color=colors[arm], alpha=0.15, linewidth=0)
    dress(
        left,
        f"Accuracy on {numbers['data']}, mean and range of {counted(numbers['seeds'], 'seed')}",
        "weights that are kept",
        "accuracy on test data",
    )
    left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    legend(left).set_loc("lower left")
    for shift, arm in zip((0.96, 1.04), ("anew", "random"), strict=True):
        for share, gaps in zip(shares, _gaps(rows, shares)[arm], strict=True):
            right.plot([share * shift] * len(gaps), gaps, "o", color=colors[arm], markersize=4, alpha=0.8)
        right.plot([], [], "o", color=colors[arm], markersize=4, label=ARMS[arm])
    right.axhline(0, color=INK, linewidth=1)
    dress(
        right,
        "How much worse than the ticket of the same seed",
        "weights that are kept",
        "excess of the negative log-likelihood in nats",
    )
    legend(right).set_loc("upper left")
    for axes in (left, right):
        _shares(axes, shares)
    return figure


def _shares(axes: Axes, shares: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:.0%}" for share in shares])
    axes.minorticks_off()
    axes.invert_xaxis()
