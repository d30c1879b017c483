"""Text with the probability that a model gave each of its tokens: what it predicted, and what took it by surprise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from deepcanon.core.roles import Generates
from deepcanon.pictures.style import INK, LINE, MUTED, new_figure

SURPRISE = LinearSegmentedColormap.from_list("surprise", ["#e2711d", "#f2a968", "#fbe3cc", "#ffffff"])
"""From tokens that the model held to be impossible to those that it was sure of."""

WIDTH = 72  # tokens in a line
SIZE = 9.0  # of the letters, in points
ADVANCE, LEADING = 0.62 * SIZE / 72, 1.6 * SIZE / 72  # from letter to letter and from line to line, in inches
MARGIN, HEADING = 0.2, 0.34

HELD_OUT = 8
PROMPT = 16
STEPS = 500


@dataclass(frozen=True)
class Passage:
    """Rows of tokens with the probability of each, NaN where a token was given; ``broken`` at ends of lines."""

    rows: Sequence[tuple[Sequence[str], Sequence[float]]]
    broken: bool = False

    def lines(self) -> list[list[tuple[str, float]]]:
        """The letters, with the probabilities of their tokens, in lines that are not too long."""
        return [line for row in self.rows for line in self._wrapped(*row)]

    def _wrapped(self, tokens: Sequence[str], shares: Sequence[float]) -> Iterator[list[tuple[str, float]]]:
        line: list[tuple[str, float]] = []
        ended = False
        for token, share in zip(tokens, shares, strict=True):
            for letter in token:
                if len(line) == WIDTH or (ended and letter != "\n"):  # empty lines take no place
                    yield line
                    line = []
                line.append((_seen(letter), share))
                ended = self.broken and letter == "\n"
        if line:
            yield line


def text_probabilities(passages: Mapping[str, Passage], title: str = "") -> Figure:
    """Passages of text one below the other, each letter on a ground that says how probable its token was."""
    lines = {name: passage.lines() for name, passage in passages.items()}
    tall = sum(HEADING + len(each) * LEADING for each in lines.values()) + 0.9
    wide = WIDTH * ADVANCE + 2 * MARGIN
    figure = new_figure(wide, tall, title)
    figure.set_layout_engine("none")  # letters must meet their grounds, so every place is set by hand
    top = tall - 0.45
    for name, each in lines.items():
        figure.text(MARGIN / wide, (top - 0.2) / tall, name, fontsize=9, fontweight="bold", color=INK)
        top -= HEADING + len(each) * LEADING
        axes = figure.add_axes((MARGIN / wide, top / tall, WIDTH * ADVANCE / wide, len(each) * LEADING / tall))
        axes.set(xlim=(0, WIDTH), ylim=(len(each), 0))
        axes.axis("off")
        cells = [Rectangle((x, y + 0.05), 1, 0.9) for y, line in enumerate(each) for x in range(len(line))]
        shades = [_ground(share) for line in each for _, share in line]
        axes.add_collection(PatchCollection(cells, facecolors=shades, edgecolors="none", antialiaseds=False))
        for y, line in enumerate(each):
            for x, (letter, _) in enumerate(line):  # one by one, since the width of letters differs between formats
                if letter != " ":
                    axes.text(x + 0.5, y + 0.76, letter, family="DejaVu Sans Mono", fontsize=SIZE, ha="center",
                              color=INK, parse_math=False)  # fmt: skip
    legend = figure.add_axes((MARGIN / wide, 0.28 / tall, 2.2 / wide, 0.1 / tall))
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), SURPRISE), cax=legend, orientation="horizontal")
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1])
    bar.ax.tick_params(labelsize=7, labelcolor=MUTED, color=LINE, length=2, pad=1)
    bar.outline.set_edgecolor(LINE)
    words = "probability by what stands before it; gray: given"
    figure.text((MARGIN + 2.35) / wide, 0.28 / tall, words, fontsize=8, color=MUTED)
    return figure


def text_picture(
    model: Generates,
    read: Callable[[Tensor], Tensor],
    x: Tensor,
    lengths: Tensor,
    tokens: Sequence[str],
    title: str,
    part: str,
    generator: torch.Generator,
) -> Figure:
    """Held-out sequences as the model predicts them, and a text that it makes itself.

    ``read`` gives the logits of what follows each token, (B, T, vocab).
    """
    held_out = _predicted(read, x, lengths)
    prompt = x[:1, : min(PROMPT, int(lengths[0]))]
    made = model.generate(prompt, STEPS, generator=generator)
    drawn = _predicted(read, made, torch.full_like(made[:, 0], made.shape[1]))
    drawn[:, : prompt.shape[1]] = torch.nan
    gap = "" if any(" " in token for token in tokens) else " "  # words come without what is between them
    names = [token + gap for token in tokens]
    passages = {
        f"{part} sequences: {_nats(held_out):.2f} nats per token": _passage(x, lengths, held_out, names),
        f"drawn from the model: {_nats(drawn):.2f} nats per token": _passage(
            made, torch.tensor([made.shape[1]]), drawn, names, broken=True
        ),
    }
    return text_probabilities(passages, title)


def _predicted(read: Callable[[Tensor], Tensor], x: Tensor, lengths: Tensor) -> Tensor:
    """The probability of each token, (B, T); NaN for the first of a row and behind its end."""
    shares = read(x).softmax(-1)[:, :-1].gather(2, x[:, 1:, None]).squeeze(2)
    shares = torch.cat([torch.full_like(shares[:, :1], torch.nan), shares], 1)
    inside = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
    return shares.masked_fill(~inside, torch.nan)


def _passage(x: Tensor, lengths: Tensor, shares: Tensor, names: Sequence[str], broken: bool = False) -> Passage:
    rows = [
        ([names[token] for token in row[:length]], share[:length])
        for row, share, length in zip(x.tolist(), shares.tolist(), lengths.tolist(), strict=True)
    ]
    return Passage(rows, broken)


def _nats(shares: Tensor) -> float:
    return float(-shares[~shares.isnan()].double().clamp_min(1e-30).log().mean())


def _ground(share: float) -> str | tuple[float, float, float, float]:
    return LINE if share != share else SURPRISE(share)  # only NaN differs from itself


def _seen(letter: str) -> str:
    """What stands for a letter in the picture: ends of lines are seen, and what has no picture is a dot."""
    return "↵" if letter == "\n" else letter if letter.isprintable() else "·"
