"""Exposure bias: what a language model does after its own tokens, by how it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import Model, Sequences
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.train import fit
from deepcanon.train.randomness import kept, seed_torch

WAYS: Mapping[str, tuple[float, ...]] = {
    "teacher forcing": (),
    "scheduled sampling": (0.0, 0.5),
    "free running": (1.0,),
}
"""The shares of own inputs in the three ways of training."""

ROWS = 1000
"""How many sequences a network learns from, and is measured on."""

SHARPNESS = 0.3
"""The shape of the gamma distribution of the odds of the source; the smaller, the surer the next token."""


def exposure_bias(
    lstm: type[Model[Any]],
    *,
    vocab: int = 8,
    length: int = 30,
    units: int = 32,
    steps: int = 250,
    seeds: int = 3,
    seed: int = 0,
) -> Finding:
    r"""The error of next-token distributions after true and after own tokens, for three ways of training.

    Sequences come from a source p in which a token depends on the two before it, so that the error of a model q is
    known after any tokens, also those that it has drawn itself:

    .. math:: e_t = E\, \mathrm{KL}\bigl(p(\cdot \mid x_{<t}) \,\Vert\, q(\cdot \mid x_{<t})\bigr), \qquad
              \text{exposure gap} = \frac1n \sum_t e_t\big|_{x \sim q} - \frac1n \sum_t e_t\big|_{x \sim p}

    Teacher forcing learns from true inputs only. Scheduled sampling replaces a growing share of them by the model's own
    draws, up to half; free running replaces all but the first. The targets stay those of the true sequence, which own
    inputs no longer lead to: the minimum of such a loss is not the source.

    References:
        | Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks (Bengio et al., 2015),
          https://arxiv.org/abs/1506.03099
        | How (not) to train your generative model: scheduled sampling, likelihood, adversary? (Huszár, 2015),
          https://arxiv.org/abs/1511.05101

    Arguments:
        lstm: The class of language models.
        vocab: The number of tokens of the source.
        length: The number of tokens of a sequence.
        units: The number of units.
        steps: The steps of each training.
        seeds: How often source and initial weights are drawn.
        seed: The seed of the random numbers.
    """
    at_least(2, vocab=vocab, seeds=seeds)
    at_least(4, length=length)
    at_least(1, units=units, steps=steps)
    results: dict[str, Any] = {name: {"true": [], "own": []} for name in WAYS}
    guesses = []
    with kept():
        for number in range(seed, seed + seeds):
            random = Generator().manual_seed(number)
            source = _source(vocab, random)
            train, test = (_drawn(source, length, random) for _ in range(2))
            full = torch.full((ROWS,), length)
            data: Dataset[Sequences] = Dataset(
                name="source", kind="text", train=Sequences(train, full), valid=Sequences(test, full),
                sizes={"vocab": vocab},
            )  # fmt: skip
            shares = train.flatten().bincount(minlength=vocab) / train.numel()
            guesses.append(float(errors(source, test, shares.log().expand(*test.shape, -1)).mean()))
            for name, own in WAYS.items():
                seed_torch(number)
                model: Any = lstm(vocab=vocab, embedding=units, units=units, own_inputs=own)
                fit(model, data, quiet=True, steps=steps, lr=0.01, seed=number, keep_weights="last")
                model.eval()
                drawn = model.generate(test[:, :2], length - 2, generator=random)
                with torch.no_grad():
                    for what, tokens in (("true", test), ("own", drawn)):
                        results[name][what].append(errors(source, tokens, model(tokens)).mean(0).tolist())
    settings = (
        f"a source of {counted(vocab, 'token')}, sequences of {length}; LSTM of {counted(units, 'unit')}, "
        f"{counted(steps, 'step')} of Adam; means over {counted(seeds, 'seed')} with {CERTAIN}"
    )
    return concluded({"settings": settings, "ways": results, "guess": fmean(guesses)}, sentences, draw)


def errors(source: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
    """The divergence of the distributions by the logits, (B, T, vocab), from the source after each token but the first.

    (B, T - 1), in nats.
    """
    true = source[tokens[:, :-1], tokens[:, 1:]].clamp_min(1e-30)  # p(. | the two tokens before)
    return (true * (true.log() - logits[:, 1:].double().log_softmax(-1))).sum(-1)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The error of each way after true and own tokens, and the gap between them."""
    gaps = {name: _gaps(way) for name, way in numbers["ways"].items()}
    first = ", ".join(f"{name} {_interval(gap)}" for name, gap in gaps.items())
    return (
        f"Exposure gap in nats per token: {first}.",
        *(
            f"{name.capitalize()}: an error of {_interval(_means(way['true']))} nats after true tokens, "
            f"{_interval(_means(way['own']))} after own ones; {_verdict(gaps[name])}."
            for name, way in numbers["ways"].items()
        ),
        f"The frequencies of the tokens alone have an error of {numbers['guess']:.3f} nats.",
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Errors by position after true and own tokens, and the gaps."""
    figure = new_figure(11.5, 4.3)
    along, apart = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for place, ((name, way), color) in enumerate(zip(numbers["ways"].items(), PALETTE, strict=False)):
        for what, style in (("true", "-"), ("own", "--")):
            means = [fmean(values) for values in zip(*way[what], strict=True)]
            along.plot(range(2, len(means) + 2), means, style, color=color, label=name if what == "true" else None)
        middle, width = interval(_gaps(way))
        apart.errorbar([place], [middle], [width], fmt="o", capsize=4, color=color)
    along.axhline(numbers["guess"], color=MUTED, linewidth=0.8, linestyle=":", label="frequencies alone")
    along.set_ylim(bottom=0)
    _finish(
        along,
        "Error of the next token after true (solid) and after own tokens (dashed)",
        "tokens before it",
        "divergence from the source in nats",
    )
    apart.axhline(0, color=MUTED, linewidth=0.8)
    apart.set_xticks(range(len(numbers["ways"])), [name.replace(" ", "\n") for name in numbers["ways"]])
    apart.set_xlim(-0.5, len(numbers["ways"]) - 0.5)
    dress(apart, "Exposure gap", "", "own less true, in nats per token")
    return figure


def _source(vocab: int, random: Generator) -> Tensor:
    """The probabilities of the next token given the two before it, (vocab, vocab, vocab)."""
    shape = torch.full((vocab, vocab, vocab), SHARPNESS, dtype=torch.float64)
    odds = torch._standard_gamma(shape, generator=random)
    return odds / odds.sum(-1, keepdim=True)


def _drawn(source: Tensor, length: int, random: Generator) -> Tensor:
    """Sequences of the source, (ROWS, length), whose first two tokens are drawn uniformly."""
    tokens = [torch.randint(len(source), (ROWS,), generator=random) for _ in range(2)]
    while len(tokens) < length:
        tokens.append(torch.multinomial(source[tokens[-2], tokens[-1]], 1, generator=random).squeeze(1))
    return torch.stack(tokens, 1)


def _means(curves: list[list[float]]) -> list[float]:
    return [fmean(curve) for curve in curves]


def _gaps(way: Mapping[str, Any]) -> list[float]:
    """The exposure gap of each seed."""
    return [own - true for own, true in zip(_means(way["own"]), _means(way["true"]), strict=True)]


def _verdict(gaps: list[float]) -> str:
    middle, width = interval(gaps)
    if abs(middle) <= width:
        return f"the gap of {middle:.4f} ± {width:.4f} cannot be told from none"
    return f"it is {'worse' if middle > 0 else 'better'} after its own, by {abs(middle):.4f} ± {width:.4f}"


def _interval(values: list[float]) -> str:
    middle, width = interval(values)
    return f"{middle:.3f} ± {width:.3f}"


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    dress(axes, title, x, y)
    legend(axes)
