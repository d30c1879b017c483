"""Baselines of a run of a method: the same network without the method, and a classical classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Blueprint, Labeled, SemiBatch, Voted, methods_of
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.pictures.bars import share_bars
from deepcanon.pictures.points import decision_maps
from deepcanon.runs.feature_baselines import SEEN, one_shot_baselines, probe_baselines
from deepcanon.runs.label_baselines import Baseline, label_baselines
from deepcanon.runs.tuning_baselines import tuning_baselines
from deepcanon.train.distributed import World

if TYPE_CHECKING:
    from deepcanon.runs.run import Run

KINDS = {"linear probe": probe_baselines, "one-shot": one_shot_baselines, "fine-tuning": tuning_baselines}
"""What a method may be compared by besides the labels; its class says so (``compared``)."""


def add_baselines(
    run: Run, asked: Blueprint, data: Dataset[Any], notify: Callable[[str], None] = lambda sentence: None
) -> None:
    """Train and keep the baselines of a run of a method that is compared with them; of any other run there are none.

    ``asked`` is the blueprint of the run's model, ``data`` are what it was trained on. The accuracies go into
    ``run.json``, a picture to the run's others.
    """
    from deepcanon.pictures import save

    if run.info["model"]["model"] != asked.cls.name() or "baselines" in run.info or not _can_compare(run, data):
        return
    kind = getattr(asked.cls, "compared", "")
    found = KINDS.get(kind, label_baselines)(run.model, asked, data, run.settings, notify)
    if World().first:  # of several processes all train, and one writes
        run.folder.refuse_links()
        if run.settings["pictures"]:
            save(picture(found, data, kind), run.folder.pictures / "baselines.png")
        run.folder.update(baselines={each.name: each.accuracy for each in found})


def _can_compare(run: Run, data: Dataset[Any]) -> bool:
    """Whether there are few labels for a method that learns from others, or rows of numbers with classes for one."""
    train, cls = data.train, type(run.model)
    if hasattr(cls, "supervised"):
        return isinstance(train, SemiBatch)
    held = data.valid if data.test is None else data.test
    numbers = isinstance(train, Labeled) and isinstance(train.x, Tensor) and train.x.is_floating_point()
    if not numbers or "classes" not in data.sizes or type(train) not in (Labeled, SemiBatch, Voted) or held is None:
        return False
    kind = getattr(cls, "compared", "")
    if kind == "fine-tuning" and "predict" not in methods_of(run.model):
        return False
    if kind == "one-shot" and (data.sizes["classes"] < 2 * SEEN or type(train) is not Labeled):
        return False
    return not kind or getattr(run.model, "weight", 1.0) > 0  # at weight 0 it is the plain network


def picture(baselines: list[Baseline], data: Dataset[Any], compared: str = "") -> Figure:
    """Decision regions side by side where examples are points in the plane, else the accuracies.

    ``compared`` says by what, where it is not by the labels; then there are accuracies alone.
    """
    title, others = data.name, data.train.x
    if isinstance(data.train, SemiBatch):
        others = data.train.unlabeled
        title += f": {len(data.train.x)} labeled among {counted(len(others), 'unlabeled example')}"
    if data.train.x[0].numel() == 2 and data.kind != "images" and not compared:
        maps = {f"{each.name}: {each.accuracy:.1%}": each.predict for each in baselines if each.predict is not None}
        return decision_maps(maps, others, data.train.x, data.train.y, data.labels, title)
    by = f"{compared}, " if compared else ""
    return share_bars(
        {baseline.name: baseline.accuracy for baseline in baselines}, f"{title}, {by}accuracy on held-out examples"
    )
