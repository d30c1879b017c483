"""A live training: an observer that holds the library's own trainer between its steps and turns, and shows them.

There is no second training loop. The trainer plays the model's turns as ever; the observer answers the page between
them, draws from generators of its own alone, and gives back all random states, so that a watched training ends with the
bits of one that nobody has watched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from deepcanon.core import DeepcanonError, SemiBatch, Terms, Turn, UsageError
from deepcanon.core.modes import eval_mode
from deepcanon.data import Dataset
from deepcanon.studio.play.asked_for import Asked
from deepcanon.studio.play.looks import FEW, Scene, first_looks, looks_of, shown_of
from deepcanon.studio.play.moving import Moving, first_movement, movements_of
from deepcanon.studio.play.retold import Edit, retold
from deepcanon.studio.play.units import network
from deepcanon.studio.play.window import Window, rounded
from deepcanon.train import Observer, fit, randomness
from deepcanon.train.trainer import Trainer

FRAME_SECONDS = 1 / 15
SHARE = 0.5
"""The share of the time that drawing may take from the training."""
SLOW_SECONDS = 1.2
"""How long slow motion shows each turn."""
SLOWEST = 0.5
"""What takes more seconds than this to compute is drawn anew only when the training pauses, or when it is asked for."""
WIDEST = 1e3
"""The largest absolute value of an edited weight."""


class Line(Protocol):
    """The line to the page: commands come in, messages go out."""

    def receive(self, seconds: float | None) -> Mapping[str, Any] | None:
        """The next command, waited for at most so long, or for ever; None where none came."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; who reads slowly gets the latest one."""


@dataclass
class Timing:
    """When a look was last computed, how long that took, and what it gave."""

    facts: dict[str, Any]
    at: float
    seconds: float


class Live(Observer):
    """The observer of a session: it shows frames, obeys commands between steps, and notes edits of weights."""

    def __init__(self, asked: Asked, line: Line) -> None:
        self.asked = asked
        self.line = line
        self.edits: list[Edit] = []
        self.motion = "paused"
        self.pace = "run"
        """What a training that goes on does next: ``run``, one ``step``, one ``turn``, or turns in ``slow`` motion."""
        self.place = ("begin", "")
        """Where the training is held: before it begins, after a step, or after the turn of this name."""
        self.ended = False
        self.resting = False
        """Whether nobody is looking: then nothing moves, and nothing is trained."""
        self._kept: dict[str, Timing] = {}
        self._next_frame = 0.0
        self._cost = 0.0
        self._told = 0
        self._terms: dict[str, float] = {}

    def begin(self, trainer: Trainer) -> None:
        self.trainer = trainer
        classes = trainer.data.sizes.get("classes", 0)
        self.scene = Scene(trainer.model, trainer.data.train, classes, Window.around(_points(self.asked, trainer.data)))
        movement = first_movement(self.scene)
        self.shown = {*first_looks(self.scene, movement), *(("network",) if self._layers() else ())}
        self.moving: Moving | None = None
        self._move(movement)
        self.line.send({"kind": "scene", **self._facts()})
        self._hold("begin", "")

    def turn(self, trainer: Trainer, turn: Turn[Any], terms: Terms) -> None:
        if self.pace in ("turn", "slow"):
            self._terms = {name: float(value) for name, value in terms.items()}
            if self.pace == "turn":
                self.motion = "paused"
            self._hold("turn", turn.name, SLOW_SECONDS if self.pace == "slow" else 0.0)

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if self.pace == "step" or trainer.step == trainer.total:
            self.motion = "paused" if trainer.step < trainer.total else "done"
        self._hold("step", "")

    def _hold(self, hook: str, turn: str, seconds: float = 0.0) -> None:
        """Stay here while the training is paused, or so long, answering the page; then let it go on."""
        self.place = (hook, turn)
        until = time.monotonic() + seconds
        self._frame_if_due(now=self.motion != "running" or seconds > 0)
        while not self.ended:
            going = self.motion == "running"
            wait = max(0.0, until - time.monotonic()) if going else None
            if self.moving is not None and not self.resting and (wait is None or wait > 0):
                wait = min(math.inf if wait is None else wait, max(0.0, self._next_frame - time.monotonic()))
            command = self.line.receive(wait)
            if command is not None:
                self._obey(command)
                continue
            if going and time.monotonic() >= until:
                return
            self._frame_if_due()

    def _obey(self, command: Mapping[str, Any]) -> None:
        """Do what the page asks for, and answer; a mistake is a sentence."""
        try:
            what = command.get("do")
            deed = COMMANDS.get(what) if isinstance(what, str) else None
            if deed is None:
                raise UsageError(f"a session knows no {str(what)[:40]!r}; it knows {', '.join(COMMANDS)}")
            answer = deed(self, command)
        except DeepcanonError as error:
            self.line.send({"kind": "answer", "to": command.get("number"), "error": str(error)})
            return
        self.line.send({"kind": "answer", "to": command.get("number"), **(answer or {})})
        if not self.ended and what not in ("code", "rest"):
            self._frame_if_due(now=True)

    def _go(self, command: Mapping[str, Any]) -> None:
        pace = command.get("pace", "run")
        if pace not in ("run", "step", "turn", "slow"):
            raise UsageError(f"a training goes on by run, step, turn or slow; got {str(pace)[:40]!r}")
        if self.motion == "done":
            raise UsageError("this training has reached its last step: begin anew, or ask for more steps")
        self.motion, self.pace = "running", pace

    def _pause(self, command: Mapping[str, Any]) -> None:
        if self.motion == "running":
            self.motion = "paused"

    def _rest(self, command: Mapping[str, Any]) -> None:
        self._pause(command)
        self.resting = True

    def _wake(self, command: Mapping[str, Any]) -> None:
        self.resting = False

    def _edit(self, command: Mapping[str, Any]) -> None:
        """Set one number of a parameter, and note it for the code."""
        name, index, value = (command.get(key) for key in ("parameter", "index", "value"))
        parameters = dict(self.trainer.model.named_parameters())
        if not isinstance(name, str) or name not in parameters:
            raise UsageError(f"the model has no parameter {str(name)[:60]!r}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= WIDEST:
            raise UsageError(f"a weight is a number from -{WIDEST:g} to {WIDEST:g}")
        shape = parameters[name].shape
        if not isinstance(index, list) or len(index) != len(shape) or not all(
            type(at) is int and 0 <= at < size for at, size in zip(index, shape, strict=True)
        ):  # fmt: skip
            raise UsageError(f"{name} has the shape {tuple(shape)}: the index is one whole number for each size")
        with torch.no_grad():
            parameters[name][tuple(index)] = value
        kept = parameters[name][tuple(index)].item()
        edit = Edit(self.trainer.step, *self.place, name, tuple(index), kept)
        if self.edits and self.edits[-1].place == edit.place:
            self.edits.pop()  # the number was dragged: only where it ends counts
        self.edits.append(edit)

    def _show(self, command: Mapping[str, Any]) -> None:
        """Choose what is drawn, how points move, and of a conditional model the class that is shown."""
        known = {*looks_of(self.scene), "network"}
        if (looks := command.get("looks")) is not None:
            if not isinstance(looks, list) or not {*map(str, looks)} <= known:
                raise UsageError(f"this model shows {', '.join(sorted(known))}")
            self.shown = {*looks}
        if (movement := command.get("moving")) is not None:
            if movement and movement not in movements_of(self.scene):
                raise UsageError(f"points move by {', '.join(movements_of(self.scene)) or 'nothing'} here")
            self._move(movement)
        if (given := command.get("given")) is not None:
            if type(given) is not int or not 0 <= given < max(1, self.scene.classes):
                raise UsageError(f"a class is a whole number from 0 to {max(1, self.scene.classes) - 1}")
            self.scene.given = given
        self._kept.clear()

    def _code(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return {"code": retold(self.asked, self.trainer, self.edits, self.place)}

    def _end(self, command: Mapping[str, Any]) -> None:
        self.ended = True
        self.trainer.stop("the session has ended")

    def _move(self, name: str) -> None:
        with quietly(self.trainer):
            self.moving = movements_of(self.scene)[name](self.scene) if name else None

    def _frame_if_due(self, now: bool = False) -> None:
        if not now and time.monotonic() < self._next_frame:
            return
        begun = time.monotonic()
        self.line.send(self._frame(fresh=self.motion != "running"))
        self._cost = time.monotonic() - begun
        self._next_frame = begun + max(FRAME_SECONDS, self._cost / SHARE)

    def _frame(self, fresh: bool) -> dict[str, Any]:
        trainer, history = self.trainer, self.trainer.log.history
        new, self._told = history[self._told :], len(history)
        with quietly(self.trainer):
            if self.moving is not None:
                self.moving.advance()
            looks = {
                name: self._look(name, look, fresh) for name, look in looks_of(self.scene).items() if name in self.shown
            }
            layers = self._layers() if "network" in self.shown else []
        return {
            "kind": "frame",
            "step": trainer.step,
            "epoch": trainer.epoch,
            "state": self.motion,
            "hook": self.place[0],
            "turn": self.place[1],
            "terms": {name: value if math.isfinite(value) else None for name, value in self._terms.items()},
            "seconds": round(trainer.seconds(), 2),
            "curve": [[record["step"], record["loss"]] for record in new if record["kind"] == "step"],
            "valid": next((record["valid"] for record in reversed(new) if record["kind"] == "epoch"), None),
            "looks": looks,
            "moving": None if self.moving is None else self.moving.facts(),
            "layers": layers,
            "edits": len(self.edits),
        }

    def _look(self, name: str, look: Callable[[Scene], dict[str, Any]], fresh: bool) -> dict[str, Any]:
        """A look, computed anew unless it takes long and the training goes on."""
        kept = self._kept.get(name)
        if kept is not None and not fresh and kept.seconds > SLOWEST:
            return {**kept.facts, "of_step": int(kept.at)}
        if (
            kept is not None
            and fresh
            and kept.at == self.trainer.step
            and self.place[0] != "turn"
            and not self._edited()
        ):
            return kept.facts
        begun = time.monotonic()
        try:
            facts = look(self.scene)
        except DeepcanonError as error:
            facts = {"kind": "refused", "says": str(error)}
        self._kept[name] = Timing(facts, self.trainer.step, time.monotonic() - begun)
        return facts

    def _edited(self) -> bool:
        """Whether a weight was edited at this very place, so that what was computed here is out of date."""
        return bool(self.edits) and self.edits[-1].step == self.trainer.step

    def _layers(self) -> list[dict[str, Any]]:
        with quietly(self.trainer):
            return network(self.scene)

    def _facts(self) -> dict[str, Any]:
        """What the page must know once: the window, the points, the axes, the turns, and what can be shown."""
        trainer, data = self.trainer, self.trainer.data
        train, semi = data.train, isinstance(data.train, SemiBatch)
        shown = shown_of(train)
        labels = getattr(train, "y", None)
        known = labels is not None and not labels.is_floating_point()
        return {
            "window": self.scene.window.facts(),
            "axes": axes_of(data),
            "points": rounded(train.x[:shown]),
            "labels": labels[:shown].tolist() if labels is not None and known else [],
            "unlabeled": rounded(train.unlabeled[:FEW]) if semi else [],
            "names": list(data.labels),
            "classes": self.scene.classes,
            "conditional": self.scene.conditional,
            "says": data.says,
            "total": trainer.total,
            "settings": {
                name: trainer.settings[name] for name in ("lr", "optimizer", "schedule", "batch_size", "seed")
            },
            "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
            "turns": [player.turn.name for player in trainer.players],
            "looks": list(looks_of(self.scene)),
            "shown": sorted(self.shown),
            "movements": list(movements_of(self.scene)),
            "moving": "" if self.moving is None else self.moving.name,
            "model": trainer.model.name(),
        }


@contextmanager
def quietly(trainer: Trainer) -> Iterator[None]:
    """Evaluation mode without gradients, after which modes and random states are as they were."""
    with randomness.kept(), eval_mode(trainer.model):
        yield


COMMANDS: dict[str, Callable[[Live, Mapping[str, Any]], dict[str, Any] | None]] = {
    "go": Live._go,
    "pause": Live._pause,
    "rest": Live._rest,
    "wake": Live._wake,
    "edit": Live._edit,
    "show": Live._show,
    "code": Live._code,
    "end": Live._end,
}
"""What the page can ask of a session."""


def play(asked: Asked, line: Line) -> Live:
    """Train the model live until the page ends the session; the training is one call of ``fit``."""
    live = Live(asked, line)
    fit(asked.build(), asked.data, quiet=True, observers=[live], **asked.settings)
    return live


def axes_of(data: Dataset[Any]) -> list[str]:
    """The names of both axes; the columns of a table are standardized."""
    if "columns" in data.preprocessing:
        names = [str(column["name"]) for column in data.preprocessing["columns"]]
        return [f"{name} (standard deviations from its mean)" for name in names]
    return ["x₁", "x₂"]


def _points(asked: Asked, data: Dataset[Any]) -> torch.Tensor:
    """The points that the window holds: all of the data, and of drawn ones the square that they were drawn in."""
    train = data.train
    points = torch.cat([train.x, train.unlabeled]) if isinstance(train, SemiBatch) else train.x
    return torch.cat([points, torch.tensor([[-1.0, -1.0], [1.0, 1.0]])]) if "points" in asked.source else points
