"""How to train: everything that decides the outcome besides model and data, as plain JSON."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

import torch

from deepcanon.core import Recipe, UsageError
from deepcanon.core.options import choose, parse
from deepcanon.optim import batch_size_schedule, default_lr, schedule

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Settings:
    """The settings of one training; ``resolve`` fills them from a model's recipe.

    ``steps`` counts batches and, where given, takes the place of ``epochs``. ``batch_size`` is that of the first epoch;
    ``batch_size_schedule`` says how it grows. ``clip`` is ``norm:1.0`` or ``value:0.5``.
    ``accumulate`` splits each batch into so many parts whose gradients are added. ``ema`` is the decay of a moving
    average of the weights, which is then what is evaluated and kept. ``freeze`` are patterns of parameter names.
    ``watch`` is a validation metric by which the best weights are kept (``max:`` before its name says that more is
    better); ``patience`` stops after so many epochs without a better value. ``keep`` is how many checkpoints stay; they
    are written every minute or every ``checkpoint_every`` steps.
    """

    epochs: int
    batch_size: int
    optimizer: str
    lr: float
    schedule: str
    clip: str | None = None
    steps: int | None = None
    accumulate: int = 1
    ema: float | None = None
    freeze: tuple[str, ...] = ()
    patience: int | None = None
    watch: str | None = None
    batch_size_schedule: str = "constant"
    seed: int = 0
    device: str = "auto"
    precision: Precision = "fp32"
    deterministic: bool = False
    keep: int = 2
    checkpoint_every: int | None = None

    @classmethod
    def resolve(cls, recipe: Recipe, **given: Any) -> Self:
        """The recipe with what the caller gives in place of it; None stands for not given.

        >>> Settings.resolve(Recipe(lr=0.1), epochs=3).lr
        0.1
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise UsageError(f"training has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}")
        chosen = {name: value for name, value in given.items() if value is not None}
        if isinstance(chosen.get("freeze"), str):
            chosen["freeze"] = (chosen["freeze"],)
        if "lr" not in chosen and parse(chosen.get("optimizer", recipe.optimizer))[0] != parse(recipe.optimizer)[0]:
            chosen["lr"] = default_lr(chosen["optimizer"])  # the recipe's rate suits the recipe's optimizer only
        settings = cls(**{**asdict(recipe), **chosen})
        settings._check()
        return settings

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(**{**content, "freeze": tuple(content["freeze"])})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "freeze": list(self.freeze)}

    def torch_device(self) -> torch.device:
        name = self.device if self.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cuda":  # each of several processes has a device of its own
            name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"the device {self.device!r} cannot be used: {str(error).splitlines()[0]}") from error
        return device

    def clipping(self) -> tuple[str, float] | None:
        """By what gradients are clipped, and to how much.

        >>> Settings.resolve(Recipe(), clip="2").clipping()
        ('norm', 2.0)
        """
        if self.clip is None:
            return None
        kind, colon, limit = str(self.clip).rpartition(":")
        try:
            amount = float(limit)
        except ValueError:
            amount = 0.0
        if not amount > 0 or kind not in ("norm", "value", "") or (colon and not kind):
            raise UsageError(f"clip is written norm:1.0 or value:0.5, with a positive number; got {self.clip!r}")
        return kind or "norm", amount

    def _check(self) -> None:
        for name in ("epochs", "steps", "batch_size", "accumulate", "patience", "keep", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise UsageError(f"lr must be a positive number, got {self.lr!r}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise UsageError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed!r}")
        if self.ema is not None and not 0 <= self.ema < 1:
            raise UsageError(f"ema is a decay in [0, 1), got {self.ema!r}")
        choose("precision", self.precision, ("fp32", "bf16"))
        schedule(self.schedule)
        batch_size_schedule(self.batch_size_schedule)
        default_lr(self.optimizer)
        self.clipping()
        self.torch_device()
