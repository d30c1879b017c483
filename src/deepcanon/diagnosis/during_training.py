"""The doctor as an observer of a training: it measures a step now and then, and warns as soon as something is ill."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import DivergenceError, Terms
from deepcanon.core.stored import held_to
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.vital_signs import (
    Units,
    curve,
    first_not_finite,
    gradient_norms,
    matrices,
    shape_of,
    update_ratios,
    watch_units,
)
from deepcanon.runs import checkpoint
from deepcanon.train.observers import Observer
from deepcanon.train.progress import say

if TYPE_CHECKING:
    from deepcanon.train.trainer import Trainer

SHARE = 0.012
"""The share of the time of the training that looking may take, of the two percent that are promised."""
LOOKS = 5
"""After so many looks a symptom counts."""
OF_LOOKS = ("dead", "saturated", "first_gradient", "largest_update")
"""What differs so much from step to step that it counts only after these."""
KEPT = 20
"""So many of the latest looks say what is usual now."""
EXAMPLES = 1000
"""A unit that was zero for so many examples is dead."""
LATE = 0.3
"""From this share of the training on, a loss that has not fallen is stuck."""
SMALL = 1000
"""Updates so many times smaller than is usual are too small; near its end a solver takes even smaller ones."""
MOVED = 0.02
"""A loss that fell by less than this share of its size has not fallen."""


class DoctorState(TypedDict):
    """The state of the doctor in a checkpoint."""

    looks: int
    ratios: dict[str, list[float]]
    gradients: dict[str, list[float]]
    units: dict[str, Any]
    said: list[str]


class Doctor(Observer):
    """An observer that warns of a training that is ill: it costs less than two percent of the time, and changes no bit.

    A look takes two steps: the weights before a step are kept, and compared with those after it, with the gradients
    and the outputs of the activations in between. The next look is due when all looks together have taken less than
    their share of the time. What it finds is said once, by ``notify``, and kept in ``findings``; ``numbers`` has
    what was measured.

    Arguments:
        notify: What is called with each warning, a sentence; by default it is printed, unless the training is quiet.
        share: The share of the time that looking may take.
    """

    def __init__(self, notify: Callable[[str], None] | None = None, *, share: float = SHARE) -> None:
        self.notify = notify
        self.share = share
        self.findings: list[Diagnosis] = []
        self.looks = 0
        self.spent = 0.0
        self._ratios: dict[str, list[float]] = {}
        self._gradients: dict[str, list[float]] = {}
        self._units = Units()
        self._said: list[str] = []
        self._before: dict[str, Tensor] = {}
        self._handles: list[Any] = []
        self._cost = 0.0
        self._began = self._last = 0.0
        self._steps = 0
        self._next = 0.0

    def begin(self, trainer: Trainer) -> None:
        self._began = self._last = time.process_time()

    def step(self, trainer: Trainer, terms: Terms) -> None:
        self._steps += 1
        if not self._before and self._steps < self._next:
            return
        now = time.process_time()  # the clock on the wall goes on between steps of a busy machine, and not in a look
        if self._before:
            usual = (self._last - self._began - self.spent) / max(1, self._steps - 1)
            self.spent += max(0.0, now - self._last - usual)  # the step took longer, as its activations were seen
            self._look(trainer)
        elif not self._due(now - self._began):
            return
        else:
            self._prepare(trainer)
        self._last = time.process_time()
        taken = self._last - now
        self.spent += taken
        self._cost = max(self._cost, taken)

    def end(self, trainer: Trainer) -> None:
        self._release()
        bad = first_not_finite(trainer.model)  # where the training has failed, this is why
        if bad:
            self._warn(trainer, _not_finite(bad, trainer))
        elif isinstance(sys.exc_info()[1], DivergenceError):
            self._warn(trainer, _diverged(trainer))
        elif self.looks < LOOKS:  # a short training: what needs no more than its curve, or is off by far, counts still
            found = self.numbers(trainer)
            finding = judged({name: value for name, value in found.items() if name not in OF_LOOKS}, trainer)
            if finding is not None:
                self._warn(trainer, finding)

    def _due(self, elapsed: float) -> bool:
        """Whether another look fits into the share of the time; before the first, one is taken to cost a step.

        If not, it is asked again at the step by which it will fit: the clock itself costs of a short step.
        """
        each = self._cost if self.looks else elapsed / self._steps
        spent, allowed = self.spent + 2 * each, self.share * elapsed
        self._next = self._steps * spent / allowed if allowed else math.inf
        return spent <= allowed

    def _prepare(self, trainer: Trainer) -> None:
        """Keep the weights, and have the activations of the next step seen."""
        self._before = {name: weight.detach().clone() for name, weight in matrices(trainer.model).items()}
        self._handles = watch_units(trainer.model, self._units.see)

    def _look(self, trainer: Trainer) -> None:
        """Measure the step between, and judge what there is."""
        ratios, gradients = update_ratios(self._before, trainer.model), gradient_norms(trainer.model)
        self._release()
        self.looks += 1
        for kept, latest in ((self._ratios, ratios), (self._gradients, gradients)):
            for name, value in latest.items():
                kept[name] = [*kept.get(name, ()), value][-KEPT:]
        bad = first_not_finite(trainer.model)
        if bad:
            self._warn(trainer, _not_finite(bad, trainer))
        elif self.looks >= LOOKS:
            finding = judged(self.numbers(trainer), trainer)
            if finding is not None:
                self._warn(trainer, finding)

    def _release(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._before = [], {}

    def numbers(self, trainer: Trainer) -> dict[str, Any]:
        """What all looks together have measured."""
        ratios = {name: median(values) for name, values in self._ratios.items() if any(values)}  # else not its turn
        gradients = [median(values) for values in self._gradients.values() if values]
        dead, ends = self._units.dead(EXAMPLES), self._units.at_ends()
        settled = [each for each in trainer.log.history if each["step"] > trainer.settled]  # before, it is another loss
        found: dict[str, Any] = {} if trainer.model.surrogate else dict(shape_of(curve(settled)))
        found |= _terms(settled)
        if ratios:
            found["largest_update"], found["update_of"] = max(ratios.values()), max(ratios, key=lambda n: ratios[n])
            found["typical_update"] = median(ratios.values())
        if len(gradients) > 1 and gradients[-1] > 0:
            found["first_gradient"] = gradients[0] / gradients[-1]
        if dead:
            found["dead"], found["dead_in"] = max(dead.values()), max(dead, key=lambda n: dead[n])
        if ends:
            found["saturated"], found["saturated_in"] = max(ends.values()), max(ends, key=lambda n: ends[n])
        return found

    def _warn(self, trainer: Trainer, finding: Diagnosis) -> None:
        if finding.cause in self._said:
            return
        self._said.append(finding.cause)
        self.findings.append(finding)
        if self.notify is not None:
            self.notify(f"the doctor at step {trainer.step:,}: {finding}")
        elif not trainer.quiet:
            say(f"the doctor at step {trainer.step:,}: {finding}")

    def state(self) -> dict[str, Any]:
        return {
            "looks": self.looks,
            "ratios": dict(self._ratios),
            "gradients": dict(self._gradients),
            "units": self._units.state(),
            "said": list(self._said),
        }

    def restore(self, state: dict[str, Any]) -> None:
        held_to(DoctorState, state, Path(checkpoint.VALUES), "observers.Doctor")
        self.looks, self._said = state["looks"], list(state["said"])
        self._ratios = {name: list(values) for name, values in state["ratios"].items()}
        self._gradients = {name: list(values) for name, values in state["gradients"].items()}
        self._units.restore(state["units"])


def judged(found: Mapping[str, Any], trainer: Trainer) -> Diagnosis | None:
    """What is ill, by the numbers: a symptom counts only if the loss does not fall, or rises far; causes come first."""
    late = trainer.step / max(trainer.total, 1) >= LATE
    stuck = late and found.get("progress", math.inf) < MOVED
    worse = _above(found, "peak") and found["progress"] < 0
    lower = f"lower the learning rate from {trainer.lr():.3g}"
    signs = (
        (stuck and _above(found, "dead"), "dead units", "dead", f"{lower}, or take leaky rectifiers"),
        (
            stuck and _above(found, "saturated"),
            "saturated units",
            "saturated",
            "scale the inputs, or start with smaller weights",
        ),
        (
            stuck and _below(found, "first_gradient"),
            "vanishing gradients",
            "first_gradient",
            "take another initialization or activation, normalization, or fewer layers",
        ),
        (
            (stuck or worse) and _above(found, "largest_update"),
            "updates too large",
            "largest_update",
            f"{lower}: each step changes much of the weights",
        ),
        (worse, "the loss blows up", "peak", f"{lower}, or clip the gradient"),
        (
            stuck
            and found.get("typical_update", math.inf) < thresholds.typical("during_training", "typical_update") / SMALL,
            "updates too small",
            "typical_update",
            f"raise the learning rate from {trainer.lr():.3g}: the weights hardly change",
        ),
        (
            late and _below(found, "kl"),
            "posterior collapse",
            "kl",
            "let the weight of the KL divergence grow from 0 (warm-up), or lower it",
        ),
        (
            late and _below(found, "discriminator"),
            "discriminator wins",
            "discriminator",
            "lower the discriminator's learning rate or its number of steps",
        ),
    )
    places = {"largest_update": "update_of", "dead": "dead_in", "saturated": "saturated_in"}
    for ill, cause, name, advice in signs:
        if ill:
            return Diagnosis(
                cause=cause,
                evidence={name: found[name], **_kept(found, "progress"), "step": trainer.step},
                advice=advice,
                where=str(found.get(places.get(name, ""), "")),
                margin=_limit(name).margin(found[name]),
                check="during_training",
            )
    return None


def _kept(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found}


def _terms(history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the terms of the loss say of a family: the divergence of latents, and the loss of a discriminator.

    A divergence alone is not one of latents: an embedding is fitted by it.
    """
    recent = [record["terms"] for record in history if record["kind"] == "step" and len(record["terms"]) > 1][-KEPT:]
    found: dict[str, float] = {}
    for name, parts in (("kl", ("kl",)), ("discriminator", ("real", "fake"))):
        values = [
            sum(terms[part] for part in parts) for terms in recent if all(terms.get(p) is not None for p in parts)
        ]
        if values:
            found[name] = median(values)
    return found


def _limit(name: str) -> thresholds.Limit:
    return thresholds.of("during_training", name)


def _above(found: Mapping[str, Any], name: str) -> bool:
    return name in found and found[name] > _limit(name).high


def _below(found: Mapping[str, Any], name: str) -> bool:
    return name in found and found[name] < _limit(name).low


def _diverged(trainer: Trainer) -> Diagnosis:
    return Diagnosis(
        cause="the loss blows up",
        evidence={"step": trainer.step, "lr": trainer.lr()},
        advice=f"lower the learning rate from {trainer.lr():.3g}, or clip the gradient",
        confirmed_by="exact: the training was broken off",
        check="during_training",
    )


def _not_finite(name: str, trainer: Trainer) -> Diagnosis:
    return Diagnosis(
        cause="non-finite values",
        evidence={"step": trainer.step, "lr": trainer.lr()},
        advice=f"lower the learning rate from {trainer.lr():.3g}, clip the gradient, or look for extreme values",
        where=name,
        confirmed_by="exact: the values themselves",
        check="during_training",
    )
