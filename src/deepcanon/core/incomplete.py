"""Tables with missing entries, which are neither imputed nor read."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import DataError


@dataclass(frozen=True, eq=False)
class Incomplete(AnyBatch):
    """Rows of a table, ``x`` (B, features), in which an entry that is missing is NaN: ratings of a user, for instance.

    A loss of them is a mean over the entries that are there, which ``observed`` marks. A model that takes NaN for a
    number is spoiled by it at once, so that nothing missing can be read unseen.

    >>> import torch
    >>> batch = Incomplete(torch.tensor([[5.0, torch.nan, 1.0], [torch.nan, 2.0, torch.nan]]))
    >>> batch.observed.sum(1), batch.weight
    (tensor([2, 1]), 3)
    """

    noun = "rows with missing entries"

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or not self.x.is_floating_point():
            raise DataError(
                "rows with missing entries are real numbers, (B, features), NaN where one is missing; got "
                f"{self.x.dtype} of the shape {tuple(self.x.shape)}"
            )

    @property
    def observed(self) -> Tensor:
        """Which entries are there, (B, features)."""
        return ~self.x.isnan()

    @property
    def weight(self) -> int:
        return int(self.observed.sum())


@dataclass(frozen=True, eq=False)
class HeldOut(Incomplete):
    """Rows with missing entries, of which ``y`` has some: those to predict from ``x``, NaN elsewhere.

    What is measured on them is a mean over the entries of ``y``, of which ``x`` may hold none; a loss of them is one
    over the entries of ``x``.

    >>> import torch
    >>> batch = HeldOut(torch.tensor([[5.0, torch.nan, 1.0]]), torch.tensor([[torch.nan, 2.0, torch.nan]]))
    >>> batch.weight, batch.metric_weight
    (2, 1)
    """

    noun = "rows with held-out entries"
    y: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.x.shape != self.y.shape:
            raise DataError(f"held-out entries have the shape of the rows, {tuple(self.x.shape)}; got {self.y.shape}")
        if not self.x.is_meta and bool((self.observed & self.asked).any()):
            raise DataError("an entry that is held out may not be among those it is predicted from")

    @property
    def asked(self) -> Tensor:
        """Which entries are to be predicted, (B, features)."""
        return ~self.y.isnan()

    @property
    def labels(self) -> Tensor:
        """The held-out entries, (entries, 1)."""
        return self.where_labeled(self.y)

    def where_labeled(self, predictions: Tensor) -> Tensor:
        return predictions[self.asked].unsqueeze(1)

    @property
    def metric_weight(self) -> int:
        return int(self.asked.sum())
