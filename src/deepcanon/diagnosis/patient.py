"""The patient: a training as the doctor gets it, of which every check takes copies."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, Model
from deepcanon.data import Dataset
from deepcanon.diagnosis import clock
from deepcanon.diagnosis.anatomy import reached
from deepcanon.diagnosis.copies import of_optimizer, together
from deepcanon.diagnosis.trial import (
    LEAST_STEPS,
    MOST_STEPS,
    STILL,
    UNCHANGED,
    Change,
    Course,
    before_steps,
    train_ours,
)
from deepcanon.diagnosis.watching import captured_loss, sent_backward, watched
from deepcanon.train import randomness

COUNTERS = ("number", "step", "n", "i", "iteration", "it", "count")
"""What the fourth argument of a step is called if it is the number of the step, although it has a default."""

SHARE = 15
"""The reference course takes about this part of the budget at most."""

ROUNDS = 12
"""A step of the user's own shows within so many calls which losses it has: some players move every fifth time only."""

EXAMPLES = 128
"""How many examples a check of one batch uses."""


class Pair(NamedTuple):
    """A batch as a user's own step gets it: ``x, y = batch``."""

    x: Tensor
    y: Tensor


class Skip(Exception):
    """A check cannot be made, for this reason."""


@dataclass
class Patient:
    """A training: a model, data, a loss, an optimizer and a step; copies of all, so that nothing of the user's changes.

    ``model`` and ``optimizer`` are copies that no check may change: :meth:`twin` makes copies of them, and
    :meth:`train` trains one.
    """

    name: str
    model: nn.Module
    data: Dataset[Any]
    settings: Mapping[str, Any]
    criterion: Callable[..., Tensor] | None = None
    """The loss of outputs and targets of a plain module; a model of ours has its own."""
    optimizer: torch.optim.Optimizer | None = None
    """The optimizer of a plain module; a model of ours is trained by its turns, with the settings."""
    step: Callable[..., Any] | None = None
    """The user's own training step."""
    originals: tuple[nn.Parameter, ...] = ()
    """The parameters of the user's own model, which a function that closes over it may still reach."""
    shuffled: bool = True
    whole: bool = False
    """Whether the module takes all examples at once, in their order, and no part of them: the nodes of a graph."""
    budget: float = 60.0
    thorough: bool = False
    """Whether checks go on after the first cause, and those that only suggest are made, too."""
    run: Any = None
    """The folder of the run, where it is one (:class:`~deepcanon.runs.run.Run`)."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """What the check that is being made has measured."""
    started: float = field(default_factory=lambda: clock.now())
    _courses: dict[tuple[str, int, int], Course] = field(default_factory=dict, init=False, repr=False)
    """The trainings that were made, by their change, steps and seed."""

    # What it is

    @property
    def ours(self) -> Model[Any] | None:
        """The model, where it is one under the contract."""
        return self.model if isinstance(self.model, Model) else None

    @property
    def by_turns(self) -> bool:
        """Whether it is trained by our trainer, with the model's turns; else by a step with one optimizer."""
        return self.ours is not None and self.optimizer is None and self.step is None

    @property
    def in_stages(self) -> bool:
        """Whether it is trained by turns one after the other, of which a short trial sees some only."""
        return self.ours is not None and self.by_turns and any(turn.share != (0.0, 1.0) for turn in self.ours.turns())

    @cached_property
    def is_game(self) -> bool:
        """Whether a user's own step descends on several losses of different parameters, as that of a GAN does."""
        if self.step is None or self.optimizer is None:
            return False
        model, optimizer = self.twins()
        for number, batch in zip(range(1, ROUNDS + 1), self.batches(), strict=False):
            players: set[frozenset[int]] = set()

            def look(loss: Tensor, found: set[frozenset[int]] = players) -> None:
                found.add(frozenset(id(leaf) for leaf in reached(loss) if isinstance(leaf, nn.Parameter)))

            with randomness.kept():
                sent_backward(partial(self.call_step, model, optimizer, batch, number), look)
            if len(players) > 1:
                return True
        return False

    @property
    def without_fit(self) -> bool:
        """Whether the loss does not measure fit: a surrogate, or the losses of several players added up."""
        return (self.ours is not None and self.ours.surrogate) or self.is_game

    @property
    def train_split(self) -> AnyBatch:
        split: AnyBatch = self.data.train
        return split

    @cached_property
    def splits(self) -> dict[str, AnyBatch]:
        found = {name: getattr(self.data, name) for name in ("train", "valid", "test")}
        return {name: split for name, split in found.items() if split is not None}

    @cached_property
    def task(self) -> str:
        """What the labels are: ``classes``, ``targets`` (real numbers), ``bits`` (zeros and ones) or ``none``."""
        y = self.train_split.labels
        if y is None or y.numel() == 0:
            return "none"
        if not y.is_floating_point():
            return "classes"
        return "bits" if bool(((y == 0) | (y == 1)).all()) and bool((y == 0).any() and (y == 1).any()) else "targets"

    @property
    def rate(self) -> float:
        """The learning rate."""
        if self.optimizer is not None:
            return float(self.optimizer.param_groups[0].get("lr", math.nan))
        return float(self.settings["lr"])

    def setting(self, **changed: Any) -> dict[str, Any]:
        """The change of a diagnosis by these settings, numbers to two digits; empty where training is not ours."""
        told = {name: float(f"{value:.2g}") if isinstance(value, float) else value for name, value in changed.items()}
        return told if self.by_turns else {}

    @property
    def left(self) -> float:
        """The seconds of the budget that are left."""
        return self.budget - (clock.now() - self.started)

    def note(self, **numbers: Any) -> None:
        """Keep numbers that a check has measured: for the report, and for the calibration."""
        self.numbers.update(numbers)

    # Examples

    def batch(self, size: int = EXAMPLES, seed: int = 0) -> AnyBatch:
        """So many training examples, drawn at random; of a graph, the graph."""
        split = self.train_split
        if self.whole:
            return split
        order = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed))
        chosen: AnyBatch = split.select(order[:size])
        return chosen

    def batches(self, seed: int = 0, change: Change = UNCHANGED) -> Iterator[AnyBatch]:
        """Training batches without end, in the order in which the training draws them."""
        split = self.train_split if change.on_data is None else change.on_data(self.train_split)
        size = int(change.settings.get("batch_size", self.settings["batch_size"]))
        shuffled = self.shuffled if change.shuffled is None else change.shuffled
        generator = torch.Generator().manual_seed(seed)
        while self.whole:
            yield split
        while True:
            order = split.order(size, generator) if shuffled else torch.arange(len(split))
            for start in range(0, len(order), size):
                if start == 0 or len(order) - start >= min(size, 2):  # as drop_last: a rest of one example is left out
                    yield split.select(order[start : start + size])

    # What it computes

    def outputs(self, model: nn.Module, batch: AnyBatch) -> Any:
        """What the model gives for the inputs of a batch."""
        return model(*batch.inputs)

    def loss(self, model: nn.Module, batch: AnyBatch) -> Tensor:
        """The objective on a batch, with its graph: of a user's own step, what that sends backward."""
        if self.step is not None and self.optimizer is not None:
            optimizer = _matching(self.model, self.optimizer, model)
            found = captured_loss(lambda: self.call_step(model, optimizer, batch, 1))
            if found is not None:
                return found
        if isinstance(model, Model):
            return sum(model.loss(batch).values(), start=torch.zeros(()))
        if self.criterion is None:
            raise Skip("no loss is given, and the step sends none backward")
        return self.criterion(self.outputs(model, batch), _targets(batch))

    def call_step(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: AnyBatch, number: int) -> Any:
        """One step of the training: the user's own, or the usual one."""
        given: Any = batch
        if self.ours is None:
            given = Pair(batch.x, batch.y) if isinstance(batch, Labeled) else batch.x
        if self.step is not None:
            return self.step(model, optimizer, given, number) if self._counts else self.step(model, optimizer, given)
        optimizer.zero_grad()
        loss = self.loss(model, batch)
        loss.backward()
        optimizer.step(lambda: loss) if isinstance(optimizer, torch.optim.LBFGS) else optimizer.step()
        return loss

    @cached_property
    def _counts(self) -> bool:
        """Whether the user's step takes the number of the step as a fourth argument: one without a default."""
        if self.step is None:
            return False
        try:
            taken = [*inspect.signature(self.step).parameters.values()]
        except ValueError:  # a function without a signature
            return False
        placed = [each for each in taken if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        return len(placed) > 3 and (placed[3].default is placed[3].empty or placed[3].name in COUNTERS)

    def twin(self) -> nn.Module:
        """A copy of the model, in training mode."""
        return copy.deepcopy(self.model).train()

    def twins(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """A copy of the model, in training mode, and of the optimizer that holds its parameters."""
        model, optimizer = together(self.model, self.optimizer)
        if optimizer is None:
            raise Skip("the model is trained by its turns, not by one optimizer")
        return model.train(), optimizer

    # Trainings

    def train(
        self, steps: int | None = None, *, seed: int = 0, change: Change = UNCHANGED, seconds: float | None = None
    ) -> Course:
        """Train a copy for so many steps, by default as many as the reference course has, with one thing changed."""
        steps = steps or self.reference.asked
        seconds = max(0.5, min(4 * self.budget / SHARE, self.left)) if seconds is None else seconds
        known = self._courses.get((change.words, steps, seed))
        if known is not None:
            return known
        with randomness.kept():
            randomness.seed_all(seed)
            if self.ours is not None and self.by_turns:
                settings = {**self.settings, "seed": seed}
                course = train_ours(self.ours, self.data, settings, steps, seconds, change)
            else:
                course = self._train_by_step(steps, seed, change, seconds)
        self._courses[change.words, steps, seed] = course
        return course

    def _train_by_step(self, steps: int, seed: int, change: Change, seconds: float) -> Course:
        model, optimizer = self.twins()
        if change.on_model is not None:
            change.on_model(model)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * change.rate
        if change.on_optimizer is not None:
            change.on_optimizer(optimizer)
        if change.on_step is not None:
            before_steps(optimizer, change.on_step)
        start = clock.now()
        losses: list[float] = []
        diverged = ""
        with watched(optimizer) as seen:
            for number, batch in enumerate(self.batches(seed, change), 1):
                try:
                    returned = self.call_step(model, optimizer, batch, number)
                except (RuntimeError, ValueError, FloatingPointError) as error:
                    if number == 1:
                        raise
                    diverged = f"step {number} failed: {error}"
                    break
                if seen.losses:
                    losses.append(sum(seen.losses))
                    seen.losses.clear()
                elif not seen.steps and isinstance(returned, Tensor | float) and _is_one(returned):
                    losses.append(float(returned))
                late = clock.now() - start > seconds and number >= LEAST_STEPS
                if number >= steps or late or (losses and not math.isfinite(losses[-1])):
                    break
        return Course(losses, model, diverged, clock.now() - start, steps, number, seen.rates)

    @cached_property
    def reference(self) -> Course:
        """The course of the training as it is, which all trials are compared with."""
        share = self.budget / SHARE
        probes = [self.train(steps=3, seconds=share) for _ in range(2)]  # the first pays for what torch imports once
        each = max(min(probe.seconds for probe in probes) / 3, 1e-4)
        steps = int(max(LEAST_STEPS, min(MOST_STEPS, share / each)))
        course = self.train(steps=steps, seconds=2 * share)
        if course.finite:
            course.asked = max(course.taken, 1)  # trials are as long as it was, however long that takes
        return course

    @cached_property
    def still(self) -> Course:
        """The course of the same batches if nothing is learned: progress is measured against it."""
        return self.train(self.reference.asked, change=STILL)

    @cached_property
    def second_reference(self) -> Course:
        """The course of the training as it is, by another seed."""
        return self.train(self.reference.asked, seed=1)

    @cached_property
    def baseline(self) -> float | None:
        """The loss of the best constant answer; None where it is not known."""
        from deepcanon.diagnosis.constant_answer import constant_answer

        return constant_answer(self)


def _targets(batch: AnyBatch) -> Tensor:
    return batch.x if batch.labels is None else batch.labels


def _is_one(value: Any) -> bool:
    return not isinstance(value, Tensor) or value.numel() == 1


def _matching(original: nn.Module, optimizer: torch.optim.Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """A copy of the optimizer that holds the parameters of this copy of the model."""
    memo: dict[int, Any] = {
        id(old): new for old, new in zip(original.parameters(), model.parameters(), strict=True)
    }  # what deepcopy has copied already
    twin = of_optimizer(optimizer, memo)
    twin.state.clear()
    return twin


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, its modes as they were afterwards; nothing has a gradient."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
