"""Forms of data sets, chosen by suffixes on their name: ``digits:binary``, ``moons:labels=6``, ``text:words``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import Labeled, SemiBatch, Stream, UsageError, Voted
from deepcanon.data.dataset import Dataset
from deepcanon.data.images.image_files import ImageFiles
from deepcanon.data.split import fixed_random
from deepcanon.data.text import as_pairs, lines, streams, tokens, words
from deepcanon.data.transforms import as_domains, at_temperature, few_labels, planted_votes

THRESHOLD = 0.5
PICTURED = ("images", "videos")
"""The kinds of data whose values are pixels, which have these forms."""
NOISE_BITS = 15


def binary(x: Tensor, levels: int, seed: int) -> Tensor:
    """Binary images: 1 where a pixel is at least half of the largest brightness, 0 elsewhere.

    >>> binary(torch.tensor([0.0, 0.25, 0.5, 1.0]), levels=17, seed=0)
    tensor([0., 0., 1., 1.])
    """
    return (x >= THRESHOLD).to(x.dtype)


def dequantized(x: Tensor, levels: int, seed: int) -> Tensor:
    """Uniform dequantization: gray levels plus uniform noise, divided by the number of levels, values in (0, 1).

    With ``D`` pixels and a density in nats, ``-log_prob / (D * log(2)) + log2(levels)`` are bits per dimension. The
    noise has few enough bits, and stays far enough from 0 and 1, that ``floor(x * levels)`` gives the gray levels back
    exactly.

    >>> (dequantized(torch.tensor([0.0, 0.5, 1.0]), levels=17, seed=0) * 17).floor()
    tensor([ 0.,  8., 16.])
    """
    steps = torch.from_numpy(fixed_random(seed).randint(2**NOISE_BITS, size=tuple(x.shape), dtype="int32"))
    return (gray_levels(x, levels) + _noise(steps, x.dtype)) / levels


def _noise(steps: Tensor, dtype: torch.dtype) -> Tensor:
    """Uniform noise in (0, 1), so coarse and so far from both ends that no sum with a gray level is rounded to one."""
    noise: Tensor = (steps.to(dtype) + 0.5) / 2**NOISE_BITS
    return noise


def gray_levels(x: Tensor, levels: int) -> Tensor:
    """The gray levels, 0 to ``levels - 1``, of values in [0, 1]."""
    return (x * (levels - 1)).round()


def in_levels(x: Tensor, levels: int, seed: int) -> Tensor:
    """Gray levels as whole numbers, 0 to ``levels - 1``.

    >>> in_levels(torch.tensor([0.0, 0.5, 1.0]), levels=17, seed=0)
    tensor([ 0.,  8., 16.])
    """
    return gray_levels(x, levels)


def spins(x: Tensor, levels: int, seed: int) -> Tensor:
    """Spins: 1 where a pixel is at least half of the largest brightness, -1 elsewhere.

    >>> spins(torch.tensor([0.0, 0.25, 0.5, 1.0]), levels=17, seed=0)
    tensor([-1., -1.,  1.,  1.])
    """
    return 2 * binary(x, levels, seed) - 1


FORMS: Mapping[str, Callable[[Tensor, int, int], Tensor]] = {
    "binary": binary,
    "spins": spins,
    "dequantized": dequantized,
    "levels": in_levels,
}


def in_form(data: Dataset[Any], form: str) -> Dataset[Any]:
    """The data in this form; the noise of an image set is that of a fixed seed, and in training new at every step."""
    check_form(data.name, data.kind, form)
    if data.kind == "text" and (lines.is_cut(data) or isinstance(data.train, Stream)):
        raise UsageError(
            f"a text is cut into lines or a stream last: write ':{form}' before that (got {data.name}:{form})"
        )
    if form.startswith(few_labels.MARK):
        return few_labels.few_labels(data, form)
    if form.startswith(planted_votes.MARK):
        return planted_votes.planted_votes(data, form)
    if form.startswith(as_domains.MARK):
        return as_domains.as_domains(data, form)
    if form.startswith(at_temperature.MARK):
        return at_temperature.at_temperature(data, form)
    if data.kind == "text":
        return _with_form(_text_in_form(data, form), data, form)
    if data.kind == "sequences":
        if data.of_length is None:
            raise UsageError(f"only sequences that are drawn have another length; leave out ':{form}' of {data.name}")
        return _with_form(replace(data.of_length(_length(form)), name=f"{data.name}:{form}"), data, form)
    if isinstance(data.train, SemiBatch | Voted):
        hides = "labels=" if isinstance(data.train, SemiBatch) else "votes="
        raise UsageError(f"labels are hidden last: write ':{form}' before ':{hides}' (got {data.name}:{form})")
    if "levels" not in data.preprocessing:
        raise UsageError(f"the pixels of {data.name} are not 8-bit numbers, so they have no gray levels for ':{form}'")
    levels = data.preprocessing["levels"]
    train, valid, test = (
        None if part is None else batch_in_form(part, form, levels, seed)
        for seed, part in enumerate((data.train, data.valid, data.test))
    )
    name = f"{data.name}:{form}"
    fresh = partial(dequantized_anew, levels=levels) if form == "dequantized" else None
    sizes = {**data.sizes, "levels": 2 if form in ("binary", "spins") else levels}
    changed = replace(data, name=name, train=train, valid=valid, test=test, sizes=sizes, fresh=fresh)
    return _with_form(changed, data, form)


def _text_in_form(data: Dataset[Any], form: str) -> Dataset[Any]:
    """A text in this form."""
    if form.startswith(words.MARK):
        return words.in_words(data, form)
    if form == streams.MARK:
        return streams.as_stream(data)
    if as_pairs.is_form(form):
        return as_pairs.in_pairs(data, form)
    return lines.in_lines(data) if form == lines.MARK else tokens.in_tokens(data, form)


def _length(form: str) -> int:
    return int(form.removeprefix("length="))


def _with_form(changed: Dataset[Any], data: Dataset[Any], form: str) -> Dataset[Any]:
    """The changed data with their forms written down, by which a run finds them again."""
    before = data.preprocessing.get("form")
    return replace(changed, preprocessing={**changed.preprocessing, "form": f"{before}:{form}" if before else form})


def black_and_white(preprocessing: Mapping[str, Any]) -> tuple[float, float]:
    """The values of a black and of a white pixel: the first and the last of the gray levels, -1 and 1, or 0 and 1.

    >>> black_and_white({"levels": 17, "form": "levels"}), black_and_white({"levels": 17, "form": "spins"})
    ((0.0, 16.0), (-1.0, 1.0))
    """
    forms = preprocessing.get("form", "").split(":")
    return -1.0 if "spins" in forms else 0.0, preprocessing["levels"] - 1.0 if "levels" in forms else 1.0


def dequantized_anew(batch: Any, generator: Generator, levels: int) -> Any:
    """A dequantized batch with new noise, so that the density is learned of all of a gray level's values."""
    x: Tensor = batch.x
    steps = torch.randint(2**NOISE_BITS, x.shape, generator=generator).to(x.device)
    return replace(batch, x=((x * levels).floor() + _noise(steps, x.dtype)) / levels)


def batch_in_form(batch: Any, form: str, levels: int, seed: int) -> Any:
    """One split of images or videos in this form, in memory."""
    if isinstance(batch, ImageFiles):
        return Labeled(FORMS[form](batch.x, levels, seed), batch.y)
    return replace(batch, x=FORMS[form](batch.x, levels, seed))


def check_form(name: str, kind: str, form: str) -> None:
    """Refuse a suffix that is not a form, and data that do not have the form."""
    if form.startswith(few_labels.MARK):
        few_labels.read_form(name, form)
        return
    if form.startswith(planted_votes.MARK):
        planted_votes.read_form(name, form)
        return
    if form.startswith(as_domains.MARK):
        as_domains.read_form(name, form)
        return
    if form.startswith(at_temperature.MARK):
        at_temperature.read_form(name, form)
        return
    if form.startswith(words.MARK):
        words.read_form(name, form)
        if kind != "text":
            raise UsageError(f"{name} gives {kind}, but words are a form of text; leave out ':{form}'")
        return
    if form in (streams.MARK, lines.MARK) or as_pairs.is_form(form):
        if kind != "text":
            raise UsageError(f"{name} gives {kind}, but {form} is a form of text; leave out ':{form}'")
        return
    if kind == "sequences" and re.fullmatch(r"length=[1-9]\d*", form):
        return
    if tokens.is_form(form):
        tokens.check(name, kind, form)
        return
    there = ", ".join(FORMS)
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r} of {name}; 'deepcanon data' lists the forms of data")
    if kind not in PICTURED:
        raise UsageError(f"{name} gives {kind}, but the forms {there} are for images and videos; leave out ':{form}'")
