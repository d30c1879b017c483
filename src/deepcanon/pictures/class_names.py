"""The names of classes as pictures show them."""

from __future__ import annotations

from collections.abc import Sequence

from deepcanon.core.errors import shortened

LONGEST_NAME = 40
"""A longer name is cut: it would take more room than the picture."""

TOLD_APART = 100
"""More classes than these are not told apart by regions and colors."""


def class_names(labels: Sequence[str], classes: int) -> list[str]:
    """The names of so many classes, their numbers where they have none.

    >>> class_names(["cat", "dog" * 50], 2), class_names((), 3)
    (['cat', 'dogdogdogdogdogdogdo... (150 characters)'], ['0', '1', '2'])
    """
    return [shortened(name, LONGEST_NAME) for name in labels] or [str(c) for c in range(classes)]
