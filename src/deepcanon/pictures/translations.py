"""Translations next to their sources, shaded by the probability of each token: where a model is uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import SequencePairs
from deepcanon.core.plural import counted
from deepcanon.pictures.texts import Passage, text_probabilities

FIRST, LEAST = 10, 6
GIVEN = float("nan")
"""In place of the probability of what is given."""


@torch.no_grad()
def translation_picture(
    model: Any, pairs: SequencePairs, source: Sequence[str], target: Sequence[str], title: str = ""
) -> Figure:
    """The translations of some sources, and of those of which the model is the least certain.

    Each is followed by the true target where it differs; the vocabularies name the tokens.
    """
    y, ends = model.translate(pairs.x, lengths=pairs.lengths)
    steps = model.step_log_probs(y, lengths=ends, context=(pairs.x, pairs.lengths))
    rows, right = [], []
    for row in range(len(pairs)):
        written, true = (_inside(*part) for part in ((y[row], ends[row]), (pairs.y[row], pairs.y_lengths[row])))
        read = _spelled(pairs.x[row, : pairs.lengths[row]].tolist(), source)
        tokens = [*read, " → ", *_spelled(written, target)]
        shares = [GIVEN] * (len(read) + 1) + steps[row, 1 : 1 + len(written)].exp().tolist()
        right.append(written == true)
        if not right[-1]:
            tokens += [" ≠ ", *_spelled(true, target)]
        rows.append((tokens, shares + [GIVEN] * (len(tokens) - len(shares))))
    uncertain = steps.sum(1).argsort()[:LEAST].tolist()
    passages = {
        f"{sum(right)} of {counted(len(right), 'translation')} are exact (else ≠ the true one); the first of them": (
            Passage(rows[:FIRST])
        ),
        f"the {len(uncertain)} least probable of these translations": Passage([rows[row] for row in uncertain]),
    }
    return text_probabilities(passages, title, gray="source")


def _inside(tokens: Tensor, length: Tensor) -> list[int]:
    """The tokens between begin and end."""
    return tokens[1 : int(length) - 1].tolist()


def _spelled(codes: Sequence[int], vocabulary: Sequence[str]) -> list[str]:
    """The tokens as they are read: a space before each word, where words are tokens; byte pairs have theirs.

    >>> _spelled([0, 1], ["a", "b"]), _spelled([0, 1], ["the", "dog"]), _spelled([0, 1], [" the", "dog"])
    (['a', 'b'], [' the', ' dog'], [' the', 'dog'])
    """
    plain = [token for token in vocabulary if not token.startswith("<")]
    words = max(map(len, plain), default=1) > 1 and not any(" " in token for token in plain)
    return [(" " if words else "") + vocabulary[code] for code in codes]
