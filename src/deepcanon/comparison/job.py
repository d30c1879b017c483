"""The jobs of a comparison: each candidate is trained on the same split and measured by all that it can do."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from typing_extensions import TypedDict

from deepcanon.comparison.measures import Measured, measure
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.comparison.support import Form, Forms
from deepcanon.core import Blueprint, DeepcanonError, Model, Terms, UsageError, describe
from deepcanon.core.files import as_json, read_sealed, refuse_links, seal, write_whole
from deepcanon.core.roles import Encodes, HasLogProb
from deepcanon.core.stored import fits, held_to
from deepcanon.data import Dataset
from deepcanon.data.suits import check_suits
from deepcanon.runs.checkpoint import saved
from deepcanon.runs.contents import Format
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.resume import load, resume
from deepcanon.train import Observer, Trainer, fit
from deepcanon.train.process import locked
from deepcanon.train.randomness import kept

FORMAT = 2
FILE = "compare.json"


class Entry(TypedDict):
    """One run: what was trained on what, where it is, and what came of it, which is a measure or an error."""

    label: str
    model: str
    form: Form
    data: str
    seed: int
    run: str
    error: str | None
    measured: Measured | None


class Comparison(TypedDict):
    """The content of ``compare.json``."""

    format: int
    status: str
    deepcanon: str
    torch: str
    threads: int
    created: str
    request: dict[str, Any]
    data: dict[str, Any]
    unsuitable: dict[str, str]
    """What cannot be trained on these data, and why."""
    reference: dict[str, Quality | None]
    """For each form, what training examples score in place of samples."""
    runs: list[Entry]


class Request(TypedDict):
    """The request: which models on which data, how often and for how long."""

    models: list[str]
    data: str
    target: str | None
    seeds: int
    budget: float | None


class ComparedData(TypedDict):
    """The one entry about the data by which they are known again."""

    fingerprint: str


class Before(TypedDict):
    """The part of ``compare.json`` from which a comparison is gone on with."""

    request: Request
    data: ComparedData
    reference: dict[str, Any]
    runs: list[Any]
    """What in these is not of this version, or came to no number, is measured again."""


@dataclass(frozen=True)
class Job:
    """One training that is to be done."""

    candidate: Blueprint
    form: Form
    seed: int

    @property
    def place(self) -> str:
        """The path of the run relative to the folder of the comparison."""
        return f"{_slug(self.candidate.label)}-{self.form}/seed-{self.seed}"


class Budget(Observer):
    """An observer that ends a training when its time budget is spent; time before a resume counts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.seconds() >= self.seconds:
            trainer.stop(f"its budget of {self.seconds:g} seconds is used up")


def run_jobs(
    candidates: Sequence[Blueprint],
    data: str,
    out: Path,
    *,
    target: str | None = None,
    seeds: int = 1,
    budget: float | None = None,
    notify: Callable[[str], None] = lambda sentence: None,
    quiet: bool = True,
) -> Comparison:
    """Train every candidate with every seed into a folder of its own under ``out``, and measure them all.

    Called again, it keeps what is finished and goes on with what is not; models and seeds may be added then. A
    candidate that fails leaves the sentence that says why, and the others go on. ``notify`` gets the progress; unless
    ``quiet``, each training shows its own.
    """
    _check(candidates, seeds, budget)
    forms = Forms(data, target)
    jobs, unsuitable = _plan(candidates, forms, seeds)
    request = {
        "models": [candidate.label for candidate in candidates],
        "data": data, "target": target, "seeds": seeds, "budget": budget,
    }  # fmt: skip
    _opened(out, request, forms.given.fingerprint())  # what is refused is not touched, not even by a lock
    with locked(out):
        return _run_all(jobs, forms, out, _comparison(request, forms.given, unsuitable), budget, notify, quiet)


def _run_all(
    jobs: Sequence[Job],
    forms: Forms,
    out: Path,
    comparison: Comparison,
    budget: float | None,
    notify: Callable[[str], None],
    quiet: bool,
) -> Comparison:
    """Train and measure what is not done yet, and write the file after each."""
    before = _opened(out, comparison["request"], forms.given.fingerprint())
    yardsticks = {form: _yardstick(forms[form]) for form in dict.fromkeys(job.form for job in jobs)}
    references = before["reference"] if before is not None else {}
    for form, yardstick in yardsticks.items():
        of_before = references.get(form)
        known: Quality | None = (
            of_before if fits(Quality, of_before) else (None if yardstick is None else yardstick.judge_training_data())
        )
        comparison["reference"][form] = known
    entries = [entry for entry in (before["runs"] if before is not None else []) if fits(Entry, entry)]
    known_runs: dict[str, Entry] = {entry["run"]: entry for entry in entries if entry["measured"] is not None}
    there = [job.place for job in jobs if (out / job.place / "run.json").is_file()]  # else it was thrown away
    done = {place: known_runs[place] for place in there if place in known_runs}
    for job in jobs:
        if job.place in there:
            _check_same_model(job, forms[job.form], out / job.place)
    _write(out, comparison, rest=list(done.values()))
    progress = _Progress(len(jobs), notify)
    for job in jobs:
        entry = done.get(job.place)
        if entry is None:
            progress.begin(job, forms[job.form].name)
            entry = _run(job, forms[job.form], out, yardsticks[job.form], budget, quiet)
            progress.end(entry)
        else:
            progress.keep(entry)
        comparison["runs"].append(entry)
        _write(out, comparison, rest=list(done.values()))
    comparison["status"] = "finished"
    _write(out, comparison)
    return comparison


def _check_same_model(job: Job, data: Dataset[Any], folder: Path) -> None:
    """Refuse a folder that holds another model under the label of a candidate."""
    with kept():
        asked = describe(job.candidate.build(data.sizes, data.name))
    if RunFolder.open(folder).info["model"] != asked:
        raise UsageError(f"{folder} holds a {job.candidate.label} with other arguments; choose another folder")


def _run(
    job: Job, data: Dataset[Any], out: Path, yardstick: Yardstick | None, budget: float | None, quiet: bool
) -> Entry:
    error, measured = None, None
    try:
        run = _trained(job, data, out / job.place, budget, quiet)
        with kept():
            model = load(run.dir, find=job.candidate.find)
            measured = measure(model, data, job.form, run, yardstick)
    except Exception as fault:  # whatever is wrong with one family must not lose the others
        error = _sentence(fault)
    return {
        "label": job.candidate.label, "model": job.candidate.cls.name(), "form": job.form, "data": data.name,
        "seed": job.seed, "run": job.place, "error": error, "measured": measured,
    }  # fmt: skip


def _trained(job: Job, data: Dataset[Any], folder: Path, budget: float | None, quiet: bool) -> RunFolder:
    """The finished run: kept if it is there, gone on with if it was broken off, else begun."""
    observers = [] if budget is None else [Budget(budget)]
    refuse_links(folder.parent, folder)
    if (folder / "run.json").is_file():
        run = RunFolder.open(folder)
        if run.info["status"] == "finished":
            return run
        if saved(run.checkpoints):
            resume(folder, data, find=job.candidate.find, quiet=quiet, observers=observers)
            return RunFolder.open(folder)
    if folder.exists():  # killed before its first checkpoint
        shutil.rmtree(folder)
    with kept():
        torch.manual_seed(job.seed)
        model = job.candidate.build(data.sizes, data.name)
    fit(model, data, out=folder, seed=job.seed, watch=watched(model, data), quiet=quiet, observers=observers)
    return RunFolder.open(folder)


def watched(model: Model[Any], data: Dataset[Any]) -> str | None:
    """The validation metric that chooses the weights: else a recipe that trains too long would seem to fit badly.

    Where the loss does not measure fit, nothing chooses and the last weights are kept. Of a lower bound that is not the
    loss the bound chooses, as of diffusion: its loss weights all timesteps alike, and it is that of the weights as they
    are, not of their moving average, by which the model predicts.
    """
    if model.surrogate or data.valid is None:
        return None
    bound = isinstance(model, HasLogProb) and model.likelihood_kind == "lower bound"
    return "nll" if bound and not isinstance(model, Encodes) else "loss"


def _plan(candidates: Sequence[Blueprint], forms: Forms, seeds: int) -> tuple[list[Job], dict[str, str]]:
    """All trainings, and why some candidates cannot be trained; each model gets the form of the data that it models."""
    jobs: list[Job] = []
    unsuitable: dict[str, str] = {}
    data = forms.with_all_sizes
    for candidate in candidates:
        try:
            check_suits(candidate, data)
            with kept():
                form = forms.suiting(candidate.build(data.sizes, data.name).support)
        except DeepcanonError as error:
            unsuitable[candidate.label] = str(error)
        else:
            jobs += [Job(candidate, form, seed) for seed in range(seeds)]
    if not jobs:
        raise UsageError("; ".join(unsuitable.values()))
    return jobs, unsuitable


def _check(candidates: Sequence[Blueprint], seeds: int, budget: float | None) -> None:
    if not candidates:
        raise UsageError("name the models to compare: deepcanon list shows them")
    places = [_slug(candidate.label) for candidate in candidates]
    twice = next((each.label for each in candidates if places.count(_slug(each.label)) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is given twice; give it other arguments or leave it out")
    if not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"seeds must be a whole number of at least 1 (got {seeds})")
    if not isinstance(budget, int | float | None):
        raise UsageError(f"the budget is a time in seconds, got {budget!r}")
    if budget is not None and not budget > 0:
        raise UsageError(f"the budget is a time in seconds and must be positive (got {budget:g})")


def _opened(out: Path, request: Mapping[str, Any], fingerprint: str) -> Before | None:
    """The comparison that is in the folder, if it can be gone on with; a folder of something else is refused."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise UsageError(f"{out} is a file; choose a folder")
    path = out / FILE
    if not path.is_file():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise UsageError(f"{out} holds something else (it has no {FILE}); choose a new folder")
        return None
    made_by: Any = read_sealed(path, Format)
    if made_by["format"] > FORMAT:
        raise UsageError(f"{path} was written by a newer version of deepcanon")
    before: Before = held_to(Before, made_by, path)
    asked, known = before["request"], before["data"]["fingerprint"]
    for name in ("data", "target", "budget"):
        if asked.get(name) != request[name]:
            raise UsageError(
                f"{out} holds a comparison with {name} {asked.get(name)}, not {request[name]}; choose another folder"
            )
    if known != fingerprint:
        raise UsageError(f"the data {request['data']} have changed since {out} was begun; choose another folder")
    return before


def _comparison(request: dict[str, Any], data: Dataset[Any], unsuitable: dict[str, str]) -> Comparison:
    sizes = {name: None if rows is None else len(rows) for name, rows in _splits(data)}
    return {
        "format": FORMAT,
        "status": "running",
        "deepcanon": version("deepcanon"),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "request": request,
        "data": {
            "name": data.name, "kind": data.kind, "source": data.source, "shape": list(data.shape),
            "labels": list(data.labels), **sizes, "fingerprint": data.fingerprint(),
        },
        "unsuitable": unsuitable,
        "reference": {},
        "runs": [],
    }  # fmt: skip


def _splits(data: Dataset[Any]) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(data, name)) for name in ("train", "valid", "test"))


def _yardstick(data: Dataset[Any]) -> Yardstick | None:
    rows = data.kind in ("images", "points", "table") and data.train.x.is_floating_point()
    return Yardstick.of(data.train.x, data.split("test").x) if rows else None


def _write(out: Path, comparison: Comparison, rest: Sequence[Entry] = ()) -> None:
    """Write the file; ``rest`` are runs known from before that have not had their turn yet."""
    there = {entry["run"] for entry in comparison["runs"]}
    runs = [*comparison["runs"], *(entry for entry in rest if entry["run"] not in there)]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / FILE, seal(as_json({**comparison, "runs": runs})))


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
        self.notify(f"[{self.count}/{self.total}] {job.candidate.label} on {data}, seed {job.seed} ...")

    def end(self, entry: Entry) -> None:
        self.trained += 1
        measured = entry["measured"]
        came = f"failed: {entry['error']}" if measured is None else f"trained in {measured['seconds']:.1f} s"
        left = (time.monotonic() - self.began) / self.trained * (self.total - self.count)
        self.notify(f"    {came}" + (f"; about {left:.0f} s left for all" if self.count < self.total else ""))

    def keep(self, entry: Entry) -> None:
        self.count += 1
        self.notify(f"[{self.count}/{self.total}] {entry['label']} on {entry['data']}, seed {entry['seed']}: kept")
