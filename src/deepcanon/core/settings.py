"""Training settings, listed once: ``fit``, the command line and the estimators take them from here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from typing_extensions import TypedDict

from deepcanon.core.errors import UsageError

Precision = Literal["fp32", "bf16"]
Kept = Literal["best", "last"]

COUNTS = ("epochs", "steps", "batch_size", "accumulate", "patience", "keep", "checkpoint_every")
"""The settings that are whole numbers of at least 1."""

LARGEST = 2**63 - 1
"""The largest whole number that a setting or an option may be: what fits into 64 bits."""

RECIPE = object()
"""The default of a setting that the model's recipe decides."""


@dataclass(frozen=True)
class Setting:
    """One setting: a sentence of help, its default, and whether the command line may give it more than once."""

    help: str
    default: Any = RECIPE
    repeatable: bool = False


class Settings(TypedDict, total=False):
    """The settings of one training; what is not given comes from the model's recipe."""

    epochs: Annotated[int, Setting("The number of epochs: passes over the training data.")]
    steps: Annotated[int | None, Setting("The number of training steps (mini-batches), in place of epochs.", None)]
    batch_size: Annotated[int, Setting("The number of examples in a mini-batch, at first.")]
    batch_size_schedule: Annotated[
        str, Setting("How mini-batches grow from epoch to epoch: exponential:by=2,every=5", "constant")
    ]
    lr: Annotated[float, Setting("The learning rate.")]
    optimizer: Annotated[str, Setting("The optimizer by name, with options: sgd:momentum=0.9")]
    schedule: Annotated[str, Setting("The learning-rate schedule: cosine:warmup=100")]
    clip: Annotated[str | None, Setting("Gradient clipping: norm:1.0 or value:0.5")]
    accumulate: Annotated[int, Setting("Gradient accumulation: split each mini-batch into this many micro-batches.", 1)]
    ema: Annotated[float | None, Setting("The decay of an exponential moving average of the weights.", None)]
    freeze: Annotated[str | tuple[str, ...], Setting("Patterns of parameters not to train: encoder.*", (), True)]
    watch: Annotated[
        str | None, Setting("The validation metric that chooses the weights; max:NAME where more is better.", None)
    ]
    keep_weights: Annotated[
        Kept, Setting("The weights to keep: the best by the watched metric, where there are validation data, or last.")
    ]
    patience: Annotated[
        int | None, Setting("Early stopping: the epochs without a better value after which training ends.", None)
    ]
    class_weight: Annotated[
        str | None,
        Setting("Class weights of a classifier's loss: balanced, or a number for each class, 1/20", None),
    ]
    seed: Annotated[int, Setting("The seed of everything that is random.", 0)]
    device: Annotated[str, Setting("cpu, cuda, cuda:1 ...; by default the fastest that is there.", "auto")]
    precision: Annotated[Precision, Setting("fp32, or bf16 for mixed precision.", "fp32")]
    deterministic: Annotated[bool, Setting("Use deterministic algorithms only.", False)]
    checkpoint_every: Annotated[int | None, Setting("Steps between checkpoints; by default, a minute.", None)]
    keep: Annotated[int, Setting("How many checkpoints to keep.", 2)]
    evaluate: Annotated[bool, Setting("The final evaluation, on each split of the data.", True)]
    pictures: Annotated[bool, Setting("The pictures that are drawn at the end of a run.", True)]
    evaluate_all: Annotated[
        bool, Setting("Evaluate all of the training split at the end, not a sample of 2,048 examples.", False)
    ]


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are numbers beyond their range; those that are not there are not looked at."""
    for name in COUNTS:
        value = settings.get(name)
        if value is not None and not (isinstance(value, int) and 1 <= value <= LARGEST):
            most = " and at most 2^63 - 1" if isinstance(value, int) and value > 1 else ""
            raise UsageError(f"{name} must be a whole number of at least 1{most}, got {value!r}")
    lr, seed, ema = (settings.get(name) for name in ("lr", "seed", "ema"))
    if lr is not None and not (lr > 0 and math.isfinite(lr)):
        raise UsageError(f"lr must be a positive number, got {lr!r}")
    if seed is not None and not (isinstance(seed, int) and 0 <= seed <= LARGEST):
        raise UsageError(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")
    if ema is not None and not 0 <= ema < 1:
        raise UsageError(f"ema is a decay in [0, 1), got {ema!r}")


def listed_settings() -> dict[str, tuple[Any, Setting]]:
    """The type and the setting of each name, in their order.

    >>> listed_settings()["accumulate"][1].default
    1
    """
    return listed_options(Settings)


@cache
def listed_options(options: type) -> dict[str, tuple[Any, Setting]]:
    """The type and the setting of each name of a typed dictionary of options."""
    hints = get_type_hints(options, include_extras=True)
    return {name: (get_args(hint)[0], get_args(hint)[1]) for name, hint in hints.items()}
