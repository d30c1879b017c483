"""The tape of a forward pass: the recorded operations in order, each of which can be run again alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from deepcanon.core.display import Shown
from deepcanon.microscopy.verdict import Array

Place = tuple[int, int]
"""The address of a value: the number of the record that made it, and which of its outputs it is."""


class Operation(Protocol):
    """A recorded operation that can be run again on other values, with the same random numbers."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs."""

    def pull(self, inputs: Sequence[Array], deltas: Sequence[Array | None]) -> list[Array | None]:
        """The delta of each input from those of the outputs: the vector-Jacobian product."""


@dataclass(eq=False)
class Record(Shown):
    """An entry of the tape: an operation with its inputs and outputs, or a value that comes from outside.

    ``call`` is the operation as it was written, its tensors as a, b, c ..., and ``where`` the line of the program.
    ``flows`` says of each input whether a gradient comes back along it, and ``cut`` whether one would have but for
    this operation.
    """

    op: str
    name: str
    values: list[Array]
    group: int | None = None
    where: str = ""
    call: str = ""
    inputs: list[Place] = field(default_factory=list)
    flows: list[bool] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    operation: Operation | None = None


@dataclass(frozen=True)
class Group:
    """One call of a module, which holds all operations that ran in it."""

    id: int
    parent: int | None
    name: str
    kind: str


@dataclass(eq=False)
class Tape(Shown):
    """The records in the order of the forward pass, and the value that is differentiated, the loss."""

    records: list[Record]
    groups: list[Group]
    loss: Place

    def value(self, place: Place) -> Array:
        return self.records[place[0]].values[place[1]]

    def inputs(self, record: Record) -> list[Array]:
        return [self.value(place) for place in record.inputs]

    def pruned(self) -> tuple[Tape, dict[int, int]]:
        """The tape without what the loss does not depend on, and the new number of each record that stays."""
        needed = {self.loss[0]}
        for number in range(self.loss[0], -1, -1):
            if number in needed:
                needed.update(source for source, _ in self.records[number].inputs)
        moved = {old: new for new, old in enumerate(sorted(needed))}
        records = [
            replace(self.records[old], inputs=[(moved[source], output) for source, output in self.records[old].inputs])
            for old in moved
        ]
        return Tape(records, self.groups, (moved[self.loss[0]], self.loss[1])), moved

    def height(self, moved: dict[Place, Array]) -> float:
        """The loss when these values are replaced; where a gradient was cut, values stay as they were."""
        changed = dict(moved)
        for number, record in enumerate(self.records):
            operation = record.operation
            if operation is None or not any(
                flows and place in changed for place, flows in zip(record.inputs, record.flows, strict=True)
            ):
                continue
            inputs = [
                changed.get(place, self.value(place)) if flows else self.value(place)
                for place, flows in zip(record.inputs, record.flows, strict=True)
            ]
            for output, value in enumerate(operation.run(inputs)):
                changed[number, output] = value
        return float(np.real(changed.get(self.loss, self.value(self.loss))))
