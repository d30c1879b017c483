"""The training loop: for each mini-batch the turns that are due are played, and observers are called."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, DivergenceError, Model, Terms, UsageError
from deepcanon.core.errors import MemoryLimitError
from deepcanon.core.fast_product import fast_linear_layers
from deepcanon.core.memory import ran_out, sentence_about
from deepcanon.core.settings import Settings
from deepcanon.core.signatures import check_signatures
from deepcanon.data import Batches, Dataset
from deepcanon.data.suits import check_suits
from deepcanon.data.tables.table import feature_scales
from deepcanon.optim import schedule
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder, describe_run
from deepcanon.train import randomness
from deepcanon.train.class_weights import weight_classes
from deepcanon.train.distributed import World
from deepcanon.train.evaluation import assess, first_that_count, some_of_valid
from deepcanon.train.finishing import finish
from deepcanon.train.moving_average import Average
from deepcanon.train.observers import Checkpoints, Log, Observer, Watch
from deepcanon.train.plan import Plan, settled_at
from deepcanon.train.process import Signals, check_memory, deterministic, frozen, keep_freed_memory, locked
from deepcanon.train.progress import progress, say
from deepcanon.train.restoring import restore
from deepcanon.train.result import Result
from deepcanon.train.scores import OF_CLASSES, OF_TARGETS
from deepcanon.train.settings import torch_device
from deepcanon.train.steps import players


class Stopped(SystemExit):
    """The end of a training by a signal, with its state saved; the process exits with 128 plus the signal's number."""


class Trainer:
    """The trainer of one model on one data set.

    Without a ``run`` nothing is written to disk. Observers watch; whatever they must remember goes into checkpoints.
    """

    def __init__(
        self,
        model: Model[Any],
        data: Dataset[Any],
        settings: Settings,
        *,
        quiet: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        check_suits(model, data)
        check_signatures(model, len(next(iter(Batches(data.train, 2))).inputs))
        watch = Watch.of(settings)
        self.settings = settings
        self.device = torch_device(settings)
        self.world = World()
        self.quiet = quiet or not self.world.first
        self.run: RunFolder | None = None
        self.given = data
        self.data = (data.with_validation_split(settings["seed"]) if watch.asked else data).to(self.device)
        if watch.asked and self.data.valid is None:
            raise UsageError(f"{data.name} is too small to hold out validation data; leave out patience and watch")
        self.model = model.to(self.device)
        self.learners = [module for module in model.modules() if isinstance(module, Model)]  # a method wraps others
        for learner in self.learners:
            learner.vocabulary = data.vocabulary
            learner.feature_scales = feature_scales(data.preprocessing) if data.kind == "table" else ()
        weight_classes(self.learners, settings["class_weight"], self.data.train, model.name())
        self.world.spread(model.state_dict().values())
        with frozen(model, settings["freeze"]):
            self.players = players(model, settings, self.world)
        check_memory(model, settings)
        self.average = Average(model, settings["ema"])
        self.plan = Plan(len(self.data.train), settings)
        self.total, self.epochs = self.plan.total, self.plan.epochs
        self.factor = schedule(settings["schedule"])
        self.log = Log()
        self.watch = None if self.data.valid is None else watch
        self.settled = settled_at([player.turn for player in self.players], self.total)
        self.checkpoints = Checkpoints(settings["checkpoint_every"])
        bar = [] if self.quiet else [progress(self.log)]
        self.observers: list[Observer] = [self.log, *([] if self.watch is None else [self.watch]), *bar, *observers]
        self.signals = Signals()
        self._noise = torch.Generator()
        self.step = 0
        self._epoch_end = 0
        self._stop_reason = ""
        self._seconds_before = 0.0
        self._started = time.perf_counter()
        self._step_at_start = 0
        self._random: randomness.State | None = None
        self._resumed = False

    @property
    def epoch(self) -> int:
        """The epoch of the last step, counted from 1."""
        return self.plan.epoch_before(self.step)

    @property
    def done(self) -> bool:
        return self.step >= self.total or bool(self._stop_reason)

    def seconds(self) -> float:
        """The time trained so far, over all resumes."""
        return self._seconds_before + time.perf_counter() - self._started

    def speed(self) -> float:
        """Steps per second since this process began."""
        return (self.step - self._step_at_start) / max(time.perf_counter() - self._started, 1e-9)

    def lr(self) -> float:
        return self.settings["lr"] * self.factor(max(1, self.step), self.total)

    def stop(self, reason: str) -> None:
        """End the training after this step, as if it had reached its end."""
        self._stop_reason = reason

    def write_to(self, folder: Path, *, overwrite: bool) -> None:
        """Make ``folder`` the folder of this run; nothing is written before the training begins."""
        self.world.first_does(lambda: RunFolder.claim(folder, overwrite=overwrite))
        self.run = RunFolder(folder, describe_run(self.model, self.given, self.settings, self.world.size))

    def fit(self) -> Result:
        """Train to the end, evaluate, and leave weights, results and pictures in the run's folder."""
        keep_freed_memory()
        with ExitStack() as context:
            context.enter_context(randomness.kept())
            context.enter_context(deterministic(self.settings["deterministic"]))
            context.enter_context(frozen(self.model, self.settings["freeze"]))
            context.enter_context(fast_linear_layers(self.model))
            if self.run is not None:
                context.enter_context(self.signals)
            self._started, self._step_at_start = time.perf_counter(), self.step
            randomness.seed_all(randomness.seed_from(self.settings["seed"], "rank", self.world.rank))
            try:
                self._resume(context) if self._resumed else self._begin(context)
                self._watched_loop()
                return self._finish()
            except DivergenceError:
                self.note(status="diverged")
                raise
            except Exception as error:
                if not ran_out(error):
                    raise
                self.note(status="stopped")
                raise MemoryLimitError(f"at step {self.step} {sentence_about(error)}; {self._remedy()}") from error

    def _begin(self, context: ExitStack) -> None:
        """Prepare the model and write the first checkpoint; only then is there a run."""
        self.model.prepare(Batches(self.data.train, self.settings["batch_size"]))
        self.world.spread(self.model.state_dict().values())
        self.average.take_over()
        if self.watch is not None:  # what cannot be measured is better known now than after an epoch
            some = first_that_count(self.model, self.data.split("valid"))
            measured = self._glance(some, whole=True)
            if self.watch.asked:
                scores = next((each for each in (OF_CLASSES, OF_TARGETS) if each[0] in measured), ())
                self.watch.choose(self, {**measured, **dict.fromkeys(scores, 0.0)})
        if self.run is not None:
            run = self.run
            self._lock(run, context)
            self.world.first_does(run.begin)
            self.save()
            self.world.first_does(run.commit)

    def _resume(self, context: ExitStack) -> None:
        """Take up the run where its last whole checkpoint has left it; nothing is read or touched before the lock."""
        if self.run is None:
            return
        run = self.run
        self._lock(run, context)
        run.refuse_links()
        found = checkpoint.latest(run.checkpoints, partial(restore, self))
        self.world.first_does(lambda: checkpoint.set_aside_damaged(run.checkpoints, found.path))
        self._step_at_start = self.step
        fallbacks = [f"{complaint}; going on from {found.path.name}" for complaint in found.complaints]
        fallbacks += self.log.rewind(self)
        self.note(status="running")
        if fallbacks and self.world.first:  # said and kept also where nobody wants to see progress
            self.note(fallbacks=[*run.info.get("fallbacks", []), *fallbacks])
            sys.stderr.writelines(f"{sentence}\n" for sentence in fallbacks)
        if not self.quiet:
            for difference in run.differences(self.world.size):
                say(difference)
        if self._random is not None:
            randomness.restore(self._random)

    def _remedy(self) -> str:
        there = checkpoint.saved(self.run.checkpoints) if self.run is not None else []
        kept = f"the last checkpoint is {there[-1]}; " if there else ""
        return f"{kept}take a smaller batch_size, split batches by accumulate, or take a smaller model"

    def _lock(self, run: RunFolder, context: ExitStack) -> None:
        self.world.first_does(lambda: context.enter_context(locked(run.dir)))

    def _watched_loop(self) -> None:
        self.model.train()
        for observer in self.observers:
            observer.begin(self)
        try:
            self._loop()
        finally:
            for observer in self.observers:
                observer.end(self)

    def _loop(self) -> None:
        buffers = list(self.model.buffers())
        for index in self._indices():
            self.step += 1
            for learner in self.learners:
                learner.__dict__["progress"] = self.step / self.total  # a module's own way to set it is slow
            terms = self._play(index)
            self.average.update(self.step)
            self.world.spread(buffers)
            for observer in self.observers:
                observer.step(self, terms)
            if self.step == self._epoch_end:
                self._end_epoch()
            if self.world.agree(self.signals.caught is not None):
                self._stop_by_signal()
            if self.checkpoints.due(self):
                self.save()

    def _indices(self) -> Iterator[Tensor]:
        """The examples of each step from the next one on, until the training is done."""
        while not self.done:
            epoch = self.plan.epoch_after(self.step)
            order, size, start = self._order(epoch), self.plan.size(epoch), self.plan.start(epoch)
            self._epoch_end = self.plan.end(epoch)
            while self.step < self._epoch_end and not self.done:
                place = self.step - start
                yield order[place * size : (place + 1) * size]

    def _order(self, epoch: int) -> Tensor:
        """The order of the examples in an epoch, counted from 0: a function of seed and epoch."""
        seed = randomness.seed_from(self.settings["seed"], "epoch", epoch)
        generator = torch.Generator().manual_seed(seed)
        order: Tensor = self.data.train.order(self.plan.size(epoch), generator)
        return order.to(self.device)

    def _play(self, index: Tensor) -> Terms:
        whole, shard = self._batch(index)
        factor, want_norm = self.factor(self.step, self.total), self.log.wants_norm(self.step)
        terms: Terms = {}
        for player in self.players:
            if player.turn.start is not None and player.turn.begins(self.step, self.total):
                player.turn.start()
                self.world.spread(self.model.state_dict().values())
            if player.turn.due(self.step, self.total):
                played = player.play(whole, shard, factor, want_norm)
                for name, value in played.items():
                    terms[f"{player.turn.name}.{name}" if name in terms else name] = value
                for observer in self.observers:
                    observer.turn(self, player.turn, played)
        return terms

    def _batch(self, index: Tensor) -> tuple[AnyBatch, AnyBatch]:
        """The examples of a step, and this process's share of them; random forms are drawn anew, alike everywhere."""
        train, fresh = self.data.train, self.data.fresh
        if fresh is not None:
            self._noise.manual_seed(randomness.seed_from(self.settings["seed"], "fresh", self.step))
            whole = fresh(train.select(index), self._noise)
            mine = self.world.shard(torch.arange(len(index), device=index.device))
            return whole, whole if self.world.size == 1 else whole.select(mine)
        whole = train.select(index)
        return whole, whole if self.world.size == 1 else train.select(self.world.shard(index))

    def _end_epoch(self) -> None:
        with self.average.in_place():
            valid = {} if self.watch is None else self._glance(self._watched, self.watch.whole)
            for observer in self.observers:
                observer.epoch(self, valid)

    @cached_property
    def _watched(self) -> AnyBatch:
        """The validation examples that are measured on the way."""
        return some_of_valid(self.data.split("valid"), self.data.train, self.settings)

    def _glance(self, split: AnyBatch, whole: bool) -> dict[str, float]:
        """What is measured on the way: once through the examples, since it is asked for often."""
        likelihood = whole or (self.watch is not None and "nll" in (self.watch.metric or ""))
        seed = self.settings["seed"]
        return assess(self.model, split, seed=seed, draws=1, predictions=whole, likelihood=likelihood).scores

    def _stop_by_signal(self) -> None:
        number = self.signals.caught or 15  # another process may have caught it
        self.save()
        self.note(status="stopped")
        if self.run is not None and not self.quiet:
            say(f"stopped at step {self.step} and saved; go on with: deepcanon resume {self.run.dir}")
        raise Stopped(128 + number)

    def _finish(self) -> Result:
        self.save()
        if self._stop_reason and not self.quiet:
            say(f"stopped early at step {self.step}: {self._stop_reason}")
        result = finish(self)
        for observer in self.observers:
            observer.done(self, result)
        return result

    def _named_observers(self) -> dict[str, Observer]:
        """Observers by the name of their class, with a number where there are several of one."""
        named: dict[str, Observer] = {}
        for observer in self.observers:
            name = type(observer).__name__
            named[name if name not in named else f"{name}-{len(named)}"] = observer
        return named

    def note(self, **changes: Any) -> None:
        """Change what ``run.json`` says of the run, if there is one."""
        if self.run is not None and self.world.first:
            self.run.update(**changes)

    def save(self) -> None:
        """Write a checkpoint of this very moment; without a run folder there is nothing to write to."""
        self.log.flush(self, sync=True)
        if self.run is None:
            return
        bad = [name for name, value in self.model.named_parameters() if not torch.isfinite(value).all()]
        if self.world.agree(bool(bad)):
            raise DivergenceError(
                f"{bad[0] if bad else 'a weight'} is not finite at step {self.step}; try a smaller lr"
            )
        state = {
            "step": self.step,
            "seconds": self.seconds(),
            "stop_reason": self._stop_reason,
            "model": dict(self.model.state_dict()),
            "average": self.average.state(),
            "players": [player.state() for player in self.players],
            "observers": {name: observer.state() for name, observer in self._named_observers().items()},
            "random": self.world.gather(randomness.state()),
        }
        folder = self.run.checkpoints
        self.world.first_does(lambda: checkpoint.save(folder, self.step, state))
        if self.world.first:
            checkpoint.prune(folder, self.settings["keep"])

    def go_on(self, run: RunFolder) -> None:
        """Make this training the continuation of a run that was broken off."""
        self.run = run
        self._resumed = True

    def take_over(self, state: dict[str, Any]) -> None:
        """Go on from the state of a checkpoint; the log is not touched."""
        self.step, self._seconds_before = state["step"], state["seconds"]
        self._stop_reason = state["stop_reason"]
        self.model.load_state_dict(state["model"])
        self.average.restore(state["average"])
        for player, saved in zip(self.players, state["players"], strict=True):
            player.restore(saved)
        for name, observer in self._named_observers().items():
            if state["observers"].get(name):
                observer.restore(state["observers"][name])
        for learner in self.learners:
            learner.progress = self.step / self.total
        if self.world.rank < len(state["random"]):
            with randomness.kept():
                randomness.restore(state["random"][self.world.rank])
            self._random = state["random"][self.world.rank]
