"""The forms of data, listed once: how each is written, of which data it is a form, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deepcanon.data.dataset import Kind


@dataclass(frozen=True)
class Form:
    """A form of data: the ``suffix`` to their name, ``of`` which data, and what it gives."""

    suffix: str
    of: str
    gives: str


WITH_CLASSES = ("images", "points", "table")
"""The kinds of data whose examples may have classes that can be hidden or taken apart."""

PUBLISHED_SPLIT = "split="
"""The beginning of the form that chooses one of several published splits."""

FORM_LIST = (
    Form("temperature=2.5", "ising", "lattices in equilibrium at the temperature 2.5, in units of the coupling"),
    Form("binary", "images, videos", "zeros and ones: 1 where a pixel has at least half of the largest brightness"),
    Form("spins", "images, videos", "the same as -1 and 1"),
    Form("dequantized", "images, videos", "real values in (0, 1): gray levels plus uniform noise, over their number"),
    Form("levels", "images, videos", "gray levels as whole numbers from 0"),
    Form("characters", "text", "characters, in which a text comes unless another form is said"),
    Form("words", "text", "words in place of characters; words=5 keeps those that occur five times or more"),
    Form("bytes", "text", "bytes in place of characters"),
    Form("bpe=512", "text", "512 tokens of a byte-pair encoding that is learned from the training split"),
    Form("length=256", "text, sequences", "windows of 256 tokens; sequences that are drawn, in this length"),
    Form("stream", "text", "consecutive windows, so that a model may carry its state from one to the next"),
    Form("lines", "text", "whole lines, each between a begin and an end token"),
    Form(
        "spans",
        "text",
        "pairs: windows with spans replaced by sentinels, and what these stand for; drawn anew at every step",
    ),
    Form("prefix", "text", "pairs: windows cut at random places, and what follows; drawn anew at every step"),
    Form(
        "labels=40", "classes", "few labels: all but 40 of the training split are hidden; labels=40,seed=1 are others"
    ),
    Form(
        "votes=6",
        "classes",
        "votes of 6 sources, not all good, in place of training labels; votes=6,seed=1 are others",
    ),
    Form("domains=A/B", "classes", "the examples of two classes as two unpaired domains; of just two, domains"),
    Form("raw", "a CSV file", "the target in its own units, not standardized"),
    Form(
        "ratings", "a CSV file", "ratings: a row for each (user, item, rating), or for each user a column for each item"
    ),
    Form(
        "text", "a CSV file", "texts with labels, word by word; text:bpe=2000, text:length=64 and others as of a text"
    ),
    Form("pairs", "a CSV file", "pairs of texts, a source and its target, in byte pairs; pairs:words and others, too"),
    Form("images", "a CSV file", "the images whose paths are in a column, with labels if a target is named"),
    Form("directed", "a graph in a file", "edges that lead from the source to the target only"),
    Form("undirected", "a graph in a file", "edges that lead both ways, also where GraphML or GML says otherwise"),
    Form("plain", "a graph in a file", "edges without their weights and features"),
    Form("links", "a graph in a file", "edges to be told from pairs of nodes without one; a part of them is hidden"),
    Form("split=3", "published splits", "another of the published splits, which are counted from 0"),
    Form("size=64", "a folder", "images of all sizes cut to a square and scaled to 64x64 pixels"),
)
"""The forms in the order in which they may follow each other, but that the forms of files and folders come first."""


def forms_of(name: str, kind: Kind, sizes: Mapping[str, int], splits: int = 1) -> tuple[Form, ...]:
    """The forms that the data of this name, of this kind, with these sizes and so many published splits, have.

    >>> [form.suffix for form in forms_of("moons", "points", {"features": 2, "classes": 2})]
    ['labels=40', 'votes=6', 'domains=A/B']
    """
    also = {"classes": kind in WITH_CLASSES and "classes" in sizes, "published splits": splits > 1}
    what = {name, kind, *(each for each, there in also.items() if there)}
    return tuple(form for form in FORM_LIST if what & {*form.of.split(", ")})
