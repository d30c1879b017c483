"""The contract of a baseline: fitted on the training split, and measured by the methods that models have too."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import Any, ClassVar, Self

from deepcanon.data import Dataset


class BaselineMethod(ABC):
    """A method outside the catalogue, which the models of a comparison are held to.

    Once fitted it has one or more of the methods of :mod:`deepcanon.core.roles`, ``predict``, ``step_log_probs`` or
    ``forecast``, so that whatever measures a model measures it alike. What it chooses, it chooses on validation data.
    """

    name: ClassVar[str]
    """How it is asked for."""
    label: ClassVar[str]
    """What it is, as the tables say."""

    @classmethod
    @abstractmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        """Whether it can be fitted to these data."""

    progress: tuple[int, int] = (1, 1)
    """How many steps of its fit it has made, and of how many."""

    @classmethod
    @abstractmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Generator[Self]:
        """The method fitted to the training split, after each part of the fit; whatever is random is so by the seed."""

    @classmethod
    def fit(cls, data: Dataset[Any], seed: int, budget: float | None = None) -> Self:
        """The fitted method, or as far as it has come, a part at least, when a ``budget`` of seconds is spent."""
        began = time.perf_counter()
        with closing(cls.fitting(data, seed)) as parts:
            fitted = next(parts)
            while budget is None or time.perf_counter() - began < budget:
                further = next(parts, None)
                if further is None:
                    break
                fitted = further
        return fitted

    @property
    def choice(self) -> str:
        """What it has chosen on validation data, in words; nothing if it chooses nothing."""
        return ""
