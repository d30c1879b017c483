"""A session retold: the Python that repeats a training of the playground bit for bit, edits of weights included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepcanon.core import Model
from deepcanon.core.model import TREE
from deepcanon.studio.play.asked_for import Asked, reading_of_columns
from deepcanon.train.trainer import Trainer

HOOKS = {"begin": "self, trainer", "turn": "self, trainer, turn, terms", "step": "self, trainer, terms"}
"""The methods of an observer that a session is held in, with their arguments."""

STOP = 'trainer.stop("as far as it was played")'


@dataclass(frozen=True)
class Edit:
    """A weight that was set by hand: at which step, in which hook, after which turn."""

    step: int
    hook: str
    turn: str
    parameter: str
    index: tuple[int, ...]
    value: float

    @property
    def place(self) -> tuple[Any, ...]:
        return self.step, self.hook, self.turn, self.parameter, self.index


def retold(asked: Asked, trainer: Trainer, edits: Sequence[Edit], place: tuple[str, str]) -> str:
    """The code that repeats the session up to this very place."""
    settings = {"steps": trainer.total, **{k: v for k, v in asked.settings.items() if k != "steps"}}
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    watcher = _observer(edits, trainer.step if trainer.step < trainer.total else None)
    lines = [
        "import torch",
        "",
        "import deepcanon as dc",
        *_imports(asked),
        "",
        *_data(asked),
        f"torch.manual_seed({asked.settings['seed']})",
        f"model = {called(trainer.model)}",
        "",
        *watcher,
        *(
            [f"# The session stands after the turn {place[1]!r} of step {trainer.step}; this ends with that step."]
            * (place[0] == "turn")
        ),
        f"dc.fit(model, data, {given}{', observers=[Played()]' if watcher else ''})",
    ]
    return "\n".join(lines) + "\n"


def called(value: Any) -> str:
    """A model as the call of its constructor, and any other argument as it is written in Python."""
    if isinstance(value, Model):
        given = ", ".join(f"{name}={called(each)}" for name, each in value.hparams.items())
        kind = "methods" if type(value).__module__.startswith(TREE[1]) else "models"
        return f"dc.{kind}.{type(value).__name__}({given})"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(called, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)


def _imports(asked: Asked) -> list[str]:
    of_few = asked.source.get("labels") is not None and "set" not in asked.source
    return ["from deepcanon.data.transforms.few_labels import few_labels"] if of_few else []


def _data(asked: Asked) -> list[str]:
    source: Mapping[str, Any] = asked.source
    if "set" in source:
        return [f"data = dc.load_data({asked.data.name!r})"]
    if "file" in source:
        path = asked.files[source["file"]]
        reading = reading_of_columns(path, source.get("columns"), source.get("target"))
        options = "".join(f", {name}={value!r}" for name, value in reading.items())
        lines = [f"data = dc.load_data({str(path)!r}{options})"]
    else:
        points = source["points"]
        lines = [f"x = {[point[:2] for point in points]!r}"]
        labels = [point[2] for point in points if len(point) == 3]
        lines += [f"y = {labels!r}"] if labels else []
        lines += [f"data = dc.from_tensors(torch.tensor(x){', torch.tensor(y)' if labels else ''}, name='drawn')"]
    if source.get("labels") is not None:
        lines += [f"data = few_labels(data, 'labels={source['labels']}')"]
    return lines


def _observer(edits: Sequence[Edit], last: int | None) -> list[str]:
    """An observer that sets the weights which were edited, and ends the training where the session stands."""
    if not edits and last is None:
        return []
    lines = ["class Played(dc.Observer):", '    """What was done by hand, and where the session stood."""', ""]
    for hook, arguments in HOOKS.items():
        body = [line for edit in edits if edit.hook == hook for line in _edited(edit)]
        if last == 0 and hook == "begin":
            body += [f"        {STOP}"]
        elif last and hook == "step":
            body += [f"        if trainer.step == {last}:", f"            {STOP}"]
        if body:
            lines += [f"    def {hook}({arguments}):", *body, ""]
    return [*lines, ""]


def _edited(edit: Edit) -> list[str]:
    index = ", ".join(map(str, edit.index))
    after = f' and turn.name == "{edit.turn}"' if edit.hook == "turn" else ""
    change = [
        "with torch.no_grad():",
        f"    trainer.model.get_parameter({edit.parameter!r})[{index}] = {edit.value!r}",
    ]
    if edit.hook == "begin":
        return [f"        {line}" for line in change]
    return [f"        if trainer.step == {edit.step}{after}:", *(f"            {line}" for line in change)]
