"""Insights, studies and the microscope by name: what each needs is filled in from a run, a model or data.

An argument with a default is an option. Of one without, ``model``, ``batch``, ``checkpoints`` and ``table`` of an
insight come from its subject; of a study it is a model of the catalogue, by that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Unpack

import torch
from torch import Tensor, nn

from deepcanon.blueprints import blueprint
from deepcanon.catalogue import find, find_question
from deepcanon.core import AnyBatch, Batch, Blueprint, Finding, Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.hints import did_you_mean
from deepcanon.core.reading import Reading, check_names_file, reading_of
from deepcanon.data import Dataset, load_data
from deepcanon.data.images.image_files import SUFFIXES
from deepcanon.data.images.image_folder import read_image
from deepcanon.data.suits import check_suits, default_data
from deepcanon.data.tables.units import table_units
from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.microscope import microscope as look_closely
from deepcanon.runs import checkpoint
from deepcanon.runs.data import is_own, new_rows
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.run import Run
from deepcanon.train import randomness

HELD_OUT = ("test", "valid", "train")
"""The splits of the data, those first from which a model has learned the least."""

EXAMPLES, ROWS = 128, 4096
"""How many examples an insight uses by default, and how many rows of a table, which cost little."""

B = TypeVar("B", bound=AnyBatch)


@dataclass(frozen=True)
class Subject:
    """A model, some data for it, a short name of both, and the folder of the run they come from."""

    model: nn.Module | None
    batch: AnyBatch
    name: str
    data: str
    run: Path | None = None
    labels: tuple[str, ...] = ()
    """The names of the classes, where they are known."""
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    """How the features of the data were made, where that is known."""

    @property
    def model_name(self) -> str:
        return self.model.name() if isinstance(self.model, Model) else type(self.model).__name__


def study(name: str, **options: Any) -> Finding:
    """Repeat an experiment of the course by name; ``options`` are the arguments of the study.

    >>> study("normalization").says[0] != ""
    True
    """
    function = find_question("study", name)
    _check_options(function, options)
    return function(**{each: find(each) for each in filled(function)}, **options)


def insight(
    name: str,
    subject: Any = None,
    *,
    data: str | Dataset[Any] | AnyBatch | Tensor | None = None,
    examples: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Finding:
    """Look inside a model by an insight's name.

    ``subject`` is a run or its folder, a model, any torch module, the name of a model that is then untrained, or an
    image file where no model is needed; ``options`` are the arguments of the insight. Of the data the first
    ``examples`` are taken, by default 128, of an insight into tables 4,096.
    """
    function = find_question("insight", name)
    _check_options(function, options)
    if "seed" in options_of(function):
        options.setdefault("seed", seed)
    return function(**{**fill(function, subject, data, examples, seed)[0], **options})


def microscope(
    subject: Any,
    data: Any = None,
    loss: Callable[[Any], Tensor] | None = None,
    *,
    examples: int | None = None,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> ComputeGraph:
    """The compute graph of a model's loss with the value and the gradient on every edge, each checked.

    ``subject`` is a run or its folder, the name of a model that is then untrained, a model, or any torch module with
    the ``data`` and the ``loss`` that :func:`deepcanon.microscopy.microscope.microscope` takes. Of data by name the
    first ``examples`` are taken, two by default; ``reading`` says how a file of data is read.
    """
    if isinstance(subject, nn.Module) and not isinstance(data, str | Dataset):
        if data is None or examples is not None or reading_of(reading):
            raise UsageError("of a module that is given, data are a batch or a tensor, all of which is looked at")
        return look_closely(subject, data, loss, seed=seed)
    return magnified(
        subject_of(subject, data, reading, seed=seed, splits=("train",)),
        2 if examples is None else examples,
        seed,
        loss,
    )


def magnified(seen: Subject, examples: int, seed: int, loss: Callable[[Any], Tensor] | None = None) -> ComputeGraph:
    """The compute graph of a subject on its first examples."""
    if seen.model is None:
        raise UsageError("the microscope needs a model: give one, its name, or the folder of a run")
    title = f"{seen.model_name} on {seen.data}"
    return look_closely(seen.model, few(seen.batch, examples), loss, seed=seed, title=title)


def _check_options(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = options_of(function)
    for name in options.keys() - known.keys():
        advice = did_you_mean(name, known)
        raise UsageError(f"{function.__name__} takes no option {name!r}; {advice}")


def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments that have a default, with their annotations resolved."""
    parameters = inspect.signature(function, eval_str=True).parameters
    return {name: each for name, each in parameters.items() if each.default is not inspect.Parameter.empty}


def filled(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments without a default."""
    parameters = inspect.signature(function).parameters
    return tuple(name for name, each in parameters.items() if each.default is inspect.Parameter.empty)


def fill(
    function: Callable[..., Any], subject: Any, data: Any, examples: int | None, seed: int
) -> tuple[dict[str, Any], Subject]:
    """The arguments of an insight that come from its subject, and the subject; ``labels`` may be given anew."""
    needs, name = filled(function), function.__name__
    if subject is None and "model" in needs:
        raise UsageError(f"{name} needs a model: deepcanon insight {name} RUN")
    if subject is None and data is None:
        raise UsageError(f"{name} needs examples: name an image, a run, or data by --data")
    if "model" in needs and is_image(subject):
        raise UsageError(f"{name} needs a model: give the folder of a run in place of {subject}")
    if "model" not in needs and not (subject is None or is_image(subject) or is_run(subject)):
        raise UsageError(f"{name} needs no model; name an image ({', '.join(SUFFIXES)}), a run, or data by --data")
    seen = subject_of(subject, data, seed=seed, labeled=_needs_labels(function))
    batch = few(seen.batch, (ROWS if "table" in needs else EXAMPLES) if examples is None else examples)
    filling: dict[str, Any] = {"model": seen.model, "batch": batch}
    if "checkpoints" in needs:
        if seen.run is None:
            raise UsageError(f"{name} follows a training: give it the folder of a run")
        saved = checkpoint.saved(RunFolder.open(seen.run).checkpoints)
        filling["checkpoints"] = [checkpoint.read(path)["model"] for path in saved]
    if "table" in needs:
        filling["table"] = table_units(seen.preprocessing, batch.x.shape[-1], seen.labels)
    named = {"labels": seen.labels} if "labels" in options_of(function) else {}
    return {each: filling[each] for each in needs} | named, seen


def _needs_labels(function: Callable[..., Any]) -> bool:
    """Whether an insight needs labels where its model does; one whose ``batch`` is a plain ``Batch`` never does."""
    needed = inspect.signature(function, eval_str=True).parameters.get("batch")
    return needed is None or needed.annotation is not Batch


def subject_of(
    subject: Any,
    data: Any = None,
    reading: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    splits: Sequence[str] = HELD_OUT,
    labeled: bool = True,
) -> Subject:
    """A model and data for it, from whatever names them; ``reading`` says how a file of data is read.

    New rows for a run have labels if they are to be ``labeled``.
    """
    asked = reading_of(reading or {})
    if asked and is_run(subject):
        raise UsageError(f"data are read as those of the run in {subject} were; leave out the {next(iter(asked))}")
    check_names_file(asked, data)
    if subject is None:
        return Subject(None, name=str(data), data=str(data), **_given(data, splits))
    if is_run(subject):
        return _of_run(subject if isinstance(subject, Run) else Run(subject), data, splits, labeled)
    if is_image(subject):
        return Subject(None, read_image(Path(subject)), Path(subject).stem, str(subject))
    if isinstance(subject, nn.Module):
        name = subject.name() if isinstance(subject, Model) else type(subject).__name__
        return Subject(subject, name=name, data=data if isinstance(data, str) else "its data", **_given(data, splits))
    if isinstance(subject, str | Path) and Path(subject).is_dir():
        RunFolder.open(subject)  # which says what is missing
    return _untrained(blueprint(subject), data, asked, seed, splits)


def is_run(subject: Any) -> bool:
    """Whether this is a run or its folder."""
    return isinstance(subject, Run) or (isinstance(subject, str | Path) and (Path(subject) / "run.json").is_file())


def is_image(subject: Any) -> bool:
    """Whether this is the name of an image file."""
    return isinstance(subject, str | Path) and Path(subject).suffix.lower() in SUFFIXES


def few(batch: B, count: int) -> B:
    """The first so many examples."""
    at_least(1, examples=count)
    return batch.select(torch.arange(min(count, len(batch))))


def _of_run(run: Run, data: Any, splits: Sequence[str], labeled: bool) -> Subject:
    name, info = run.dir.resolve().name, run.info["data"]
    if isinstance(data, str | None):
        own, where = is_own(run.folder, data), data or info["name"]
        rows = _split_of(run.data, splits) if own else new_rows(run.folder, run.model, data, labeled)
    else:
        where, rows = name, _given(data, splits)["batch"]
    return Subject(run.model, rows, name, where, run.dir, tuple(info["labels"]), info["preprocessing"])


def _untrained(asked: Blueprint, data: Any, reading: Mapping[str, Any], seed: int, splits: Sequence[str]) -> Subject:
    """A model of the catalogue, and a split of the data, by default of some that suit it."""
    if isinstance(data, AnyBatch | Tensor):
        raise UsageError(f"{asked.label} takes its sizes from a data set: give its name, or a model that is built")
    chosen = default_data(asked) if data is None else load_data(data, **reading) if isinstance(data, str) else data
    check_suits(asked, chosen)
    with randomness.kept():
        torch.manual_seed(seed)
        built = asked.build(chosen.model_sizes, chosen.name)
        built.prepare([chosen.train])
    where = Path(chosen.name).stem
    return Subject(built, name=f"{built.name()}-{where}", data=chosen.name, **_given(chosen, splits))


def _given(data: Any, splits: Sequence[str]) -> dict[str, Any]:
    """The rows of data in any form, and what is known of them, as the parts of a subject."""
    if data is None:
        raise UsageError("a model that is given needs data: a batch, a tensor, a data set or its name")
    if isinstance(data, AnyBatch | Tensor):
        return {"batch": Batch(data) if isinstance(data, Tensor) else data}
    if not isinstance(data, str | Path | Dataset):
        raise UsageError(f"data are a batch, a tensor, a data set or its name, got {type(data).__name__}")
    found = data if isinstance(data, Dataset) else load_data(data)
    return {"batch": _split_of(found, splits), "labels": found.labels, "preprocessing": found.preprocessing}


def _split_of(data: Dataset[Any], splits: Sequence[str]) -> AnyBatch:
    """The first of these splits that the data have."""
    there: list[AnyBatch] = [rows for split in splits if (rows := getattr(data, split)) is not None]
    return there[0]
