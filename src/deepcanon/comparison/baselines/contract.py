"""The contract of a baseline: fitted on the training split, and measured by the methods that models have too."""

from __future__ import annotations

from abc import ABC, abstractmethod
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

    @classmethod
    @abstractmethod
    def fit(cls, data: Dataset[Any], seed: int) -> Self:
        """The method fitted to the training split; whatever is random in it comes from the seed."""

    @property
    def choice(self) -> str:
        """What it has chosen on validation data, in words; nothing if it chooses nothing."""
        return ""
