"""Commands that repeat a comparison, or its call in Python, and those of each training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from deepcanon.comparison.record import Comparison
from deepcanon.core import Blueprint
from deepcanon.core.reading import reading_in_words
from deepcanon.data.tensors import SOURCE


def in_memory(comparison: Comparison) -> bool:
    """Whether the data were given in Python, where no command finds them."""
    return bool(comparison["data"]["source"] == SOURCE)


def compare_call(comparison: Comparison, out: str) -> str:
    """The call that makes the comparison anew of data in memory, there called ``data``."""
    asked = comparison["request"]
    options = {name: asked[name] for name in ("seeds", "budget", "epochs", "cost", "learning_curve") if asked.get(name)}
    words = {**asked["reading"], **options, "baselines": asked["baselines"] or "none"}
    named = "".join(f", {name}={value!r}" for name, value in words.items())
    return f"dc.compare({asked['models']!r}, data, {out!r}{named})"


def compare_command(comparison: Comparison, out: str) -> str:
    """The command that makes the comparison anew."""
    asked = comparison["request"]
    words = ["deepcanon", "compare", *asked["models"], "--data", asked["data"], *reading_in_words(asked["reading"])]
    for option in ("seeds", "budget", "epochs"):
        if asked.get(option) is not None:
            words += [f"--{option}", f"{asked[option]:g}" if isinstance(asked[option], float) else str(asked[option])]
    words += ["--baselines", ",".join(asked["baselines"]) or "none"]
    if asked["cost"] is not None:
        words += ["--cost", ",".join(f"{name}={value:g}" for name, value in asked["cost"].items())]
    if asked["learning_curve"]:
        words += ["--learning-curve"]
    return shlex.join([*words, "--threads", str(comparison["threads"]), "--out", out])


def run_commands(comparison: Comparison, candidates: Sequence[Blueprint]) -> list[str]:
    """The commands that repeat each single training; with a time budget a training cannot be repeated exactly."""
    known = {candidate.label: candidate for candidate in candidates}
    found = []
    for entry in comparison["runs"]:
        if entry["model"] is None:
            continue
        candidate = known[entry["label"]]
        words = ["deepcanon", "train", entry["model"], "--data", entry["data"]]
        words += [*reading_in_words(comparison["request"]["reading"]), *candidate.to_options()]
        if entry["measured"] is not None and entry["measured"]["watch"] is not None:
            words += ["--watch", entry["measured"]["watch"]]
        if comparison["request"].get("epochs") is not None:
            words += ["--epochs", str(comparison["request"]["epochs"])]
        words += ["--seed", str(entry["seed"]), "--threads", str(comparison["threads"])]
        found.append(shlex.join(words))
    return found
