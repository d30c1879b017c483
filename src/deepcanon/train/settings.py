"""Training settings, resolved: a model's recipe with what the caller gives in place of it."""

from __future__ import annotations

import operator
import os
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, Unpack

import numpy as np
import torch

from deepcanon.core import CheckpointError, Recipe, UsageError
from deepcanon.core.annotations import describe_type, members_of
from deepcanon.core.options import choose, parse
from deepcanon.core.settings import RECIPE, Settings, check_numbers, listed_settings
from deepcanon.core.stored import fits
from deepcanon.optim import batch_size_schedule, default_lr, schedule


def resolve_settings(recipe: Recipe, **given: Unpack[Settings]) -> Settings:
    """The recipe with what the caller gives in place of it; None stands for not given.

    >>> resolve_settings(Recipe(lr=0.1), epochs=3)["lr"]
    0.1
    """
    known = listed_settings()
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise UsageError(f"training has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}")
    chosen: dict[str, Any] = {name: _typed(name, value) for name, value in given.items() if value is not None}
    if isinstance(chosen.get("freeze"), str):
        chosen["freeze"] = (chosen["freeze"],)
    if "lr" not in chosen and parse(chosen.get("optimizer", recipe.optimizer))[0] != parse(recipe.optimizer)[0]:
        chosen["lr"] = default_lr(chosen["optimizer"])  # the recipe's rate suits the recipe's optimizer only
    return _checked({**_defaults(), **asdict(recipe), **chosen})


def _defaults() -> dict[str, Any]:
    return {name: setting.default for name, (_, setting) in listed_settings().items() if setting.default is not RECIPE}


def settings_of(info: dict[str, Any], path: Path = Path("run.json")) -> Settings:
    """The settings that ``run.json`` holds, checked as a caller's are; JSON knows lists only, a setting is a tuple."""
    saved = {name: tuple(value) if isinstance(value, list) else value for name, value in info["settings"].items()}
    saved.setdefault("keep_weights", "last")  # as all runs did before it was a setting
    known = listed_settings()
    try:
        for name in known.keys() - _defaults().keys() - saved.keys():
            raise UsageError(f"{name} is missing")
        for name in saved.keys() - known.keys():
            raise UsageError(f"training has no setting {name[:50]!r}: made by another version?")
        for name, value in saved.items():
            if not fits(known[name][0], value):
                raise UsageError(f"{name} takes {describe_type(known[name][0])}, got {str(value)[:50]!r}")
        return _checked({**_defaults(), **saved})
    except UsageError as error:
        raise CheckpointError(f"the settings in {path} are not those of a training: {error}") from error


def torch_device(settings: Settings) -> torch.device:
    """The device to train on."""
    given = settings["device"]
    name = given if given != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":  # each of several processes has a device of its own
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"the device {given!r} cannot be used: {str(error).splitlines()[0]}") from error
    return device


def clipping(settings: Settings) -> tuple[str, float] | None:
    """How gradients are clipped, by norm or by value, and to how much.

    >>> clipping(resolve_settings(Recipe(), clip="2"))
    ('norm', 2.0)
    """
    if settings["clip"] is None:
        return None
    kind, colon, limit = str(settings["clip"]).rpartition(":")
    try:
        amount = float(limit)
    except ValueError:
        amount = 0.0
    if not amount > 0 or kind not in ("norm", "value", "") or (colon and not kind):
        raise UsageError(f"clip is written norm:1.0 or value:0.5, with a positive number; got {settings['clip']!r}")
    return kind or "norm", amount


def _typed(name: str, value: Any) -> Any:
    """The value, if it is of the setting's type; whole numbers of other libraries become Python's."""
    kinds = members_of(listed_settings()[name][0])
    if int in kinds and not isinstance(value, bool) and hasattr(value, "__index__"):
        return operator.index(value)
    right = {
        bool: isinstance(value, bool),
        int: not isinstance(value, bool | str),  # how large it is, and that it is whole, is checked with the others
        float: isinstance(value, int | float | np.floating) and not isinstance(value, bool),
        str: isinstance(value, str) or (name == "freeze" and isinstance(value, tuple | list)),
    }
    if not any(right.get(kind, isinstance(value, str)) for kind in kinds if kind is not NoneType):
        raise UsageError(f"{name} takes {describe_type(listed_settings()[name][0])}, got {value!r}")
    return tuple(value) if isinstance(value, list) else value


def _checked(settings: Any) -> Settings:
    check_numbers(settings)
    if settings["evaluate_all"] and not settings["evaluate"]:
        raise UsageError(
            "evaluate_all asks for more evaluation at the end, evaluate=False for none; leave out one of them"
        )
    choose("precision", settings["precision"], ("fp32", "bf16"))
    choose("keep_weights", settings["keep_weights"], ("best", "last"))
    schedule(settings["schedule"])
    batch_size_schedule(settings["batch_size_schedule"])
    default_lr(settings["optimizer"])
    clipping(settings)
    torch_device(settings)
    return settings  # type: ignore[no-any-return]
