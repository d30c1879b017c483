"""The jobs of a comparison: each candidate is trained on the same split and measured by all that it can do."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.comparison.baselines.registry import AnyBaseline
from deepcanon.comparison.cost import Cost, whole_cost
from deepcanon.comparison.differences import FILE as EXAMPLES
from deepcanon.comparison.differences import differences
from deepcanon.comparison.learning_curve import check_parts, gains, part_of, sizes_of
from deepcanon.comparison.measures import measure, measure_baseline
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.comparison.record import FORMAT, Comparison, Entry, opened, whole, write
from deepcanon.comparison.support import Form, Forms, ranked_as
from deepcanon.core import Blueprint, DeepcanonError, Terms, UsageError, describe
from deepcanon.core.files import as_json, refuse_links
from deepcanon.core.plural import counted
from deepcanon.core.stored import fits
from deepcanon.data import Dataset
from deepcanon.data.suits import check_suits
from deepcanon.runs.checkpoint import saved
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.resume import load, resume
from deepcanon.train import Observer, Trainer, fit
from deepcanon.train.plan import Plan
from deepcanon.train.process import locked
from deepcanon.train.randomness import kept
from deepcanon.train.settings import resolve_settings


@dataclass(frozen=True)
class Job:
    """One training that is to be done: of a candidate, or of a ``baseline``, on all examples or on some."""

    candidate: AnyBaseline
    form: Form
    seed: int
    baseline: bool = False
    examples: int | None = None

    @property
    def place(self) -> str:
        """The path of the run relative to the folder of the comparison."""
        part = "" if self.examples is None else f"learning-curve/{self.examples}/"
        return f"{part}{_slug(self.candidate.label)}-{self.form}/seed-{self.seed}"

    @property
    def mark(self) -> str:
        """The file without which there is nothing at its place to be kept."""
        return "run.json" if isinstance(self.candidate, Blueprint) else EXAMPLES


class Budget(Observer):
    """An observer that ends a training when its time budget is spent; time before a resume counts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.seconds() >= self.seconds:
            trainer.stop(f"its budget of {self.seconds:g} seconds is used up")


@dataclass(frozen=True)
class Workshop:
    """The setting of all jobs: the data in their forms, the folder, and how each is trained and measured."""

    forms: Forms
    out: Path
    budget: float | None
    epochs: int | None
    cost: Cost | None
    quiet: bool

    def data(self, job: Job) -> Dataset[Any]:
        """The data of a job: in the form of its model, and of a learning curve a part of the training split."""
        data = self.forms[job.form]
        return data if job.examples is None else replace(data, train=part_of(data.train, job.examples))

    def run(self, job: Job, yardstick: Yardstick | None) -> Entry:
        """Train and measure; what is wrong with one family must not lose the others."""
        error, measured = None, None
        data = self.data(job)
        try:
            if isinstance(job.candidate, Blueprint):
                run = self._trained(job, job.candidate, data)
                with kept():
                    model = load(run.dir, find=job.candidate.find)
                    measured = measure(model, data, job.form, run, yardstick, self.cost)
            else:
                measured = self._fitted(job, job.candidate, data)
        except Exception as fault:
            error = _sentence(fault)
        return {
            "label": job.candidate.label,
            "model": job.candidate.cls.name() if isinstance(job.candidate, Blueprint) else None,
            "baseline": job.baseline, "form": job.form, "data": data.name, "seed": job.seed, "examples": job.examples,
            "run": job.place, "error": error, "measured": measured,
        }  # fmt: skip

    def _fitted(self, job: Job, method: type[BaselineMethod], data: Dataset[Any]) -> Any:
        folder = self.out / job.place
        refuse_links(folder.parent, folder)
        folder.mkdir(parents=True, exist_ok=True)
        with kept():
            torch.manual_seed(job.seed)
            began = time.perf_counter()
            fitted = method.fit(data, job.seed, self.budget)
            seconds = time.perf_counter() - began
            return measure_baseline(fitted, data, job.form, folder, job.seed, seconds, self.cost)

    def _trained(self, job: Job, candidate: Blueprint, data: Dataset[Any]) -> RunFolder:
        """The finished run: kept if it is there, gone on with if it was broken off, else begun.

        On some of the examples a model is trained for as many steps as on all, fewer examples but no less training, and
        nothing is drawn.
        """
        folder = self.out / job.place
        observers = [] if self.budget is None else [Budget(self.budget)]
        refuse_links(folder.parent, folder)
        if (folder / "run.json").is_file():
            run = RunFolder.open(folder)
            if run.info["status"] == "finished":
                return run
            if saved(run.checkpoints):
                resume(folder, data, find=candidate.find, quiet=self.quiet, observers=observers)
                return RunFolder.open(folder)
        if folder.exists():  # killed before its first checkpoint
            shutil.rmtree(folder)
        with kept():
            torch.manual_seed(job.seed)
            model = candidate.build(data.model_sizes, data.name)
        settings = resolve_settings(model.recipe, seed=job.seed)
        if self.epochs is not None:
            settings["epochs"] = self.epochs
        if job.examples is not None:
            settings["steps"] = Plan(len(self.forms[job.form].train), settings).total
            settings["pictures"] = False
        fit(model, data, out=folder, quiet=self.quiet, observers=observers, **settings)
        return RunFolder.open(folder)


def run_jobs(
    candidates: Sequence[Blueprint],
    data: str | Forms,
    out: Path,
    *,
    reading: Mapping[str, Any] | None = None,
    seeds: int = 1,
    budget: float | None = None,
    epochs: int | None = None,
    baselines: Sequence[AnyBaseline] = (),
    cost: Cost | None = None,
    learning_curve: bool = False,
    chosen: Sequence[str] = (),
    notify: Callable[[str], None] = lambda sentence: None,
    quiet: bool = True,
) -> Comparison:
    """Train every candidate and baseline with every seed into a folder of its own under ``out``, and measure them all.

    Called again, it keeps what is finished and goes on with what is not; models, baselines and seeds may be added
    then. A candidate that fails leaves the sentence that says why, and the others go on. ``chosen`` says why these
    candidates were chosen. ``notify`` gets the progress; unless ``quiet``, each training shows its own.
    """
    _check(candidates, baselines, seeds, budget, epochs)
    forms = data if isinstance(data, Forms) else Forms(data, reading)
    for remark in forms.given.remarks:
        notify(remark)
    cost = None if cost is None else whole_cost(cost, forms.given)
    jobs, unsuitable = _plan(candidates, baselines, forms, seeds)
    if learning_curve:
        check_parts(forms.given)
        jobs += [replace(job, examples=count) for count in sizes_of(forms.given.train) for job in jobs]
    request = {
        "models": [candidate.label for candidate in candidates],
        "data": forms.name, "reading": as_json(forms.reading), "seeds": seeds, "budget": budget,
        "epochs": epochs,
        "baselines": [each.label if isinstance(each, Blueprint) else each.name for each in baselines],
        "cost": cost, "learning_curve": learning_curve,
    }  # fmt: skip
    opened(out, request, forms.given.fingerprint())  # what is refused is not touched, not even by a lock
    with locked(out):
        comparison = _comparison(request, forms.given, unsuitable, chosen)
        return _run_all(jobs, Workshop(forms, out, budget, epochs, cost, quiet), comparison, notify)


def _run_all(jobs: Sequence[Job], shop: Workshop, comparison: Comparison, notify: Callable[[str], None]) -> Comparison:
    """Train and measure what is not done yet, and write the file after each."""
    forms, out = shop.forms, shop.out
    before = opened(out, comparison["request"], forms.given.fingerprint())
    yardsticks = {form: _yardstick(forms[form]) for form in dict.fromkeys(job.form for job in jobs)}
    references = before["reference"] if before is not None else {}
    for form, yardstick in yardsticks.items():
        of_before = references.get(form)
        known: Quality | None = (
            of_before if fits(Quality, of_before) else (None if yardstick is None else yardstick.judge_training_data())
        )
        comparison["reference"][form] = known
    earlier = [] if before is None else [*before["runs"], *before.get("curve", [])]
    entries: list[Entry] = [entry for entry in earlier if fits(Entry, entry)]
    known_runs: dict[str, Entry] = {entry["run"]: entry for entry in entries if whole(entry, out, shop.cost)}
    there = [job.place for job in jobs if (out / job.place / job.mark).is_file()]  # else it was thrown away
    done = {place: known_runs[place] for place in there if place in known_runs}
    for job in jobs:
        if job.place in there and isinstance(job.candidate, Blueprint):
            _check_same_model(job.candidate, shop.data(job), out / job.place)
    write(out, comparison, rest=list(done.values()))
    progress = _Progress(len(jobs), notify)
    for job in jobs:
        entry = done.get(job.place)
        if entry is None:
            progress.begin(job, forms[job.form].name)
            entry = shop.run(job, yardsticks[job.form] if job.examples is None else None)
            progress.end(entry)
        else:
            progress.keep(entry)
        comparison["runs" if job.examples is None else "curve"].append(entry)
        write(out, comparison, rest=list(done.values()))
    comparison["differences"] = [
        each for form, runs in _folders(comparison["runs"], out).items() for each in differences(form, runs)
    ]
    comparison["gains"] = gains(comparison["runs"], comparison["curve"], len(forms.given.train), out)
    comparison["status"] = "finished"
    write(out, comparison)
    return comparison


def _folders(entries: Sequence[Entry], out: Path) -> dict[Form, dict[str, dict[int, Path]]]:
    """The folders of the runs of which it is kept what each example contributes, by form, label and seed."""
    runs: dict[Form, dict[str, dict[int, Path]]] = {}
    forms = {entry["form"] for entry in entries}
    for entry in entries:
        if entry["measured"] is not None and entry["measured"]["examples"]:
            runs.setdefault(ranked_as(entry["form"], forms), {}).setdefault(entry["label"], {})[entry["seed"]] = (
                out / entry["run"]
            )
    return runs


def _check_same_model(candidate: Blueprint, data: Dataset[Any], folder: Path) -> None:
    """Refuse a folder that holds another model under the label of a candidate."""
    with kept():
        asked = describe(candidate.build(data.model_sizes, data.name))
    if RunFolder.open(folder).info["model"] != asked:
        raise UsageError(f"{folder} holds a {candidate.label} with other arguments; choose another folder")


def _plan(
    candidates: Sequence[Blueprint], baselines: Sequence[AnyBaseline], forms: Forms, seeds: int
) -> tuple[list[Job], dict[str, str]]:
    """All trainings, and why some candidates cannot be trained; each model gets the form of the data that it models."""
    jobs: list[Job] = []
    unsuitable: dict[str, str] = {}
    data = forms.with_all_sizes
    for each in (*candidates, *baselines):
        form: Form = "plain"
        try:
            if isinstance(each, Blueprint):
                check_suits(each, data)
                with kept():
                    form = forms.suiting(each.build(data.model_sizes, data.name).support)
        except DeepcanonError as error:
            unsuitable[each.label] = str(error)
        else:
            jobs += [Job(each, form, seed, each in baselines) for seed in range(seeds)]
    if all(job.baseline for job in jobs):
        raise UsageError("; ".join(unsuitable.values()))
    return jobs, unsuitable


def _check(
    candidates: Sequence[Blueprint],
    baselines: Sequence[AnyBaseline],
    seeds: int,
    budget: float | None,
    epochs: int | None,
) -> None:
    if not candidates:
        raise UsageError("name the models to compare: deepcanon list shows them")
    labels = [each.label for each in (*candidates, *baselines)]
    places = [_slug(label) for label in labels]
    twice = next((label for label in labels if places.count(_slug(label)) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is given twice; give it other arguments or leave it out")
    if not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"seeds must be a whole number of at least 1 (got {seeds})")
    if epochs is not None and (not isinstance(epochs, int) or epochs < 1):
        raise UsageError(f"epochs must be a whole number of at least 1 (got {epochs})")
    if not isinstance(budget, int | float | None):
        raise UsageError(f"the budget is a time in seconds, got {budget!r}")
    if budget is not None and not budget > 0:
        raise UsageError(f"the budget is a time in seconds and must be positive (got {budget:g})")


def _comparison(
    request: dict[str, Any], data: Dataset[Any], unsuitable: dict[str, str], chosen: Sequence[str]
) -> Comparison:
    sizes = {name: None if rows is None else len(rows) for name, rows in _splits(data)}
    return {
        "format": FORMAT,
        "status": "running",
        "deepcanon": version("deepcanon"),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "request": request,
        "chosen": list(chosen),
        "data": {
            "name": data.name, "kind": data.kind, "source": data.source, "shape": list(data.shape),
            "labels": list(data.labels), **sizes, "fingerprint": data.fingerprint(),
        },
        "unsuitable": unsuitable,
        "reference": {},
        "runs": [],
        "differences": [],
        "curve": [],
        "gains": [],
    }  # fmt: skip


def _splits(data: Dataset[Any]) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(data, name)) for name in ("train", "valid", "test"))


def _yardstick(data: Dataset[Any]) -> Yardstick | None:
    rows = data.kind in ("images", "points", "table") and data.train.x.is_floating_point()
    return Yardstick.of(data.train.x, data.split("test").x) if rows else None


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", label)


def _sentence(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return first if isinstance(error, DeepcanonError) else f"{type(error).__name__}: {first}"


class _Progress:
    """The progress of all runs together, in sentences."""

    def __init__(self, total: int, notify: Callable[[str], None]) -> None:
        self.total = total
        self.notify = notify
        self.count = 0
        self.trained = 0
        self.began = time.monotonic()

    def begin(self, job: Job, data: str) -> None:
        self.count += 1
        part = "" if job.examples is None else f"{counted(job.examples, 'example', ',')} of "
        self.notify(f"[{self.count}/{self.total}] {job.candidate.label} on {part}{data}, seed {job.seed} ...")

    def end(self, entry: Entry) -> None:
        self.trained += 1
        measured = entry["measured"]
        came = f"failed: {entry['error']}" if measured is None else f"trained in {measured['seconds']:.1f} s"
        left = (time.monotonic() - self.began) / self.trained * (self.total - self.count)
        self.notify(f"    {came}" + (f"; about {left:.0f} s left for all" if self.count < self.total else ""))

    def keep(self, entry: Entry) -> None:
        self.count += 1
        part = "" if entry["examples"] is None else f"{counted(entry['examples'], 'example', ',')} of "
        name = f"{entry['label']} on {part}{entry['data']}, seed {entry['seed']}"
        self.notify(f"[{self.count}/{self.total}] {name}: kept")
