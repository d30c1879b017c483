"""The finding of a study: its sentences and its figure are functions of its numbers alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from deepcanon.core.files import as_json
from deepcanon.core.finding import Finding
from deepcanon.pictures.style import footnote, headline

Numbers = Mapping[str, Any]


def concluded(
    numbers: Numbers, sentences: Callable[[Numbers], tuple[str, ...]], draw: Callable[[Numbers], Figure]
) -> Finding:
    """Draw and conclude from the numbers as they will stand in the file, so that no claim rests on anything else.

    The first sentence is the headline of the figure; below it stand the ``settings`` in words.
    """
    written = json.loads(json.dumps(as_json(numbers), allow_nan=False))
    says = sentences(written)
    figure = draw(written)
    headline(figure, says[0])
    footnote(figure, written["settings"])
    return Finding(written, figure, says)
