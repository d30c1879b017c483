"""Texts that a model writes for sources: translations of texts, captions of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.roles import Translates
from deepcanon.data import Batches
from deepcanon.data.images.image_folder import read_images
from deepcanon.data.text.special import padded
from deepcanon.runs import text

ROWS_AT_ONCE = 256


def sources(given: Sequence[str], info: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Texts in tokens with their ``lengths``, or images by their files, as the model of a run reads them."""
    text.targets(info)
    captions = info["kind"] == "captions"
    for each in given:
        if not isinstance(each, str | Path if captions else str):
            what = "an image to caption is the path of a file" if captions else "a text to translate is a string"
            raise UsageError(f"{what}; got {type(each).__name__}: give several one by one, translate(*all_of_them)")
    if captions:
        return read_images([Path(file) for file in given], {"shape": info["shape"], **info["preprocessing"]}), {}
    rows = [text.tokenizer(info).encode(each) for each in given]
    for each, codes in zip(given, rows, strict=True):
        if not codes:
            raise UsageError(f"a text to translate needs at least one token that the model can read; got {each!r}")
    x, lengths = padded(rows)
    return x, {"lengths": lengths}


def conditioned(model: Any, given: str | None, info: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The model of texts for what is given, a text or the file of an image, and what its texts are made of."""
    if not isinstance(model, Translates):
        if given is not None:
            raise UsageError(f"{_name(model)} continues a prompt and is given nothing else; leave out --given")
        return model, info
    if given is None:
        raise UsageError(
            f"{_name(model)} writes what a source says, not what follows a prompt: name the source by --given, or use "
            "translate"
        )
    x, lengths = sources([given], info)
    bound: Any = model
    return bound.given((x, *lengths.values()) if lengths else x), text.targets(info)


def searched(
    model: Any,
    info: Mapping[str, Any],
    prompt: Tensor,
    steps: int,
    *,
    top: int,
    beams: int | None,
    exact: bool,
    stop: int | None,
    length_penalty: float,
) -> list[tuple[str, float]]:
    """The most probable texts after a prompt, (1, T), without the stop token, each with its log-probability in nats."""
    if exact and beams is not None:
        raise UsageError(f"an exact search has no beams; leave out one of exact and beams (got beams={beams})")
    beams = top if beams is None else beams
    if beams < top:
        raise UsageError(f"the {top} most probable texts take as many beams, or an exact search (got beams={beams})")
    found = (
        model.exact_search(prompt, steps, top=top, stop=stop, length_penalty=length_penalty)
        if exact
        else model.beam_search(prompt, steps, beams=beams, stop=stop, length_penalty=length_penalty)
    )
    written = []
    for tokens, log_prob in zip(found.tokens[0, :top], found.log_prob[0, :top].tolist(), strict=True):
        if log_prob > float("-inf"):
            written.append((text.decode(without_end(tokens, prompt.shape[1], stop), info), log_prob))
    return written


def without_end(tokens: Tensor, given: int, end: int | None) -> Tensor:
    """Tokens (T,) up to the first end token after those that were given.

    >>> without_end(torch.tensor([1, 5, 6, 1, 1]), 1, 1)
    tensor([1, 5, 6])
    """
    after = tokens[given:].tolist()
    return tokens[: given + after.index(end)] if end in after else tokens


def _name(model: Any) -> str:
    return str(model.name())


def texts(tokens: Tensor, lengths: Tensor, info: Mapping[str, Any]) -> list[str]:
    """The texts of targets, (B, T), without begin and end tokens."""
    by = text.tokenizer(text.targets(info))
    return [by.decode(row[:end]) for row, end in zip(tokens.tolist(), lengths.tolist(), strict=True)]


@torch.no_grad()
def written(model: Any, rows: AnyBatch, info: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of a table of what a model writes for each row: the text, and its log-probability in nats."""
    columns: dict[str, list[Any]] = {"prediction": [], "log_prob": []}
    assert isinstance(model, Translates)
    for part in Batches(rows, ROWS_AT_ONCE):
        known = {"lengths": part.lengths} if hasattr(part, "lengths") else {}
        tokens, ends = model.translate(part.x, **known)
        bound = model.given((part.x, *known.values()) if known else part.x)  # type: ignore[attr-defined]
        columns["prediction"] += texts(tokens, ends, info)
        columns["log_prob"] += bound.log_prob(tokens, lengths=ends).tolist()
    return columns
