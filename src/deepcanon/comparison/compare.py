"""A comparison of candidates on one data set: trained, measured, and set out in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from deepcanon.blueprints import blueprint
from deepcanon.comparison.baselines.registry import baselines_for
from deepcanon.comparison.choice import choose
from deepcanon.comparison.cost import read_cost
from deepcanon.comparison.job import run_jobs
from deepcanon.comparison.record import FILE, Comparison
from deepcanon.comparison.report import tables_of, write_report
from deepcanon.comparison.sentences import across, conclusions
from deepcanon.comparison.support import Forms
from deepcanon.comparison.tables import Section, failures, sections
from deepcanon.core import Blueprint, Model, UsageError
from deepcanon.core.display import Shown, framed, notebook, sentences
from deepcanon.core.files import free
from deepcanon.core.reading import Reading, reading_of
from deepcanon.train.randomness import kept


@dataclass(frozen=True)
class Compared(Shown):
    """A finished comparison: its ``content``, which is that of ``compare.json``, and its ``report`` for the browser."""

    content: Comparison
    folder: Path
    report: Path

    @property
    def numbers(self) -> Path:
        """The file with all numbers."""
        return self.folder / FILE

    @property
    def sections(self) -> list[Section]:
        """The tables, one for each form of the data and each question, the best candidates first."""
        return sections(self.content)

    @property
    def failures(self) -> dict[str, list[str]]:
        """The candidates that could not be trained, with the reasons."""
        return failures(self.content)

    @property
    def says(self) -> tuple[str, ...]:
        """The findings, a plain sentence each."""
        tables = self.sections
        return (*(sentence for section in tables for sentence in conclusions(section)), *across(tables))

    def _facts(self) -> dict[str, Any]:
        asked = self.content["request"]
        ranked = [row.label for section in self.sections for row in section.rows]
        failed = {"failed": list(self.failures)} if self.failures else {}
        return {"data": asked["data"], "models": ranked, **failed, "report": str(self.report)}

    def _repr_html_(self) -> str:
        said = [*self.says, f"The report is {self.report}; all numbers are in {self.numbers}."]
        report = framed(self.report.read_text(encoding="utf-8"), "report") if self.report.is_file() else ""
        return notebook("Comparison", tables_of(self.sections), sentences(said), report)

    def __str__(self) -> str:
        return "\n".join([*self.says, f"The report is {self.report}; all numbers are in {self.numbers}."])


def compare(
    models: Sequence[str | type[Model[Any]] | Blueprint] | None = None,
    data: Any = "",
    out: str | Path | None = None,
    *,
    seeds: int = 1,
    budget: float | None = None,
    epochs: int | None = None,
    baselines: str | Sequence[str] = "default",
    cost: str | Mapping[str, float] | None = None,
    learning_curve: bool = False,
    notify: Callable[[str], None] = lambda sentence: None,
    quiet: bool = True,
    **reading: Unpack[Reading],
) -> Compared:
    """Train several models on the same data and write a report that says which fits best.

    ``data`` are whatever :func:`deepcanon.data.of` takes: a name, a file or folder, a data frame, arrays, a torch data
    set. Where they come without a test split, a fifth of them is held out, always the same, and a tenth for validation.

    ``models`` are names, with arguments where wanted (``"vae:latent=4"``), or classes; without any, some that suit the
    data are chosen, and the report says why. Each gets the form of the data that it models: images as zeros and ones,
    or dequantized. Called again with the same folder, it goes on where it was broken off. ``budget`` is the most
    seconds for each training, of a model or of a baseline, which ends after a part of its fit; with ``epochs``, models
    are trained for so many in place of those of their recipes. ``notify`` is called with the progress.

    ``baselines`` stand next to them, trained on the same split: all that suit the data, some by name, or ``"none"``.
    ``cost`` says what mistakes cost, ``{"ill": 10, "well": 1}`` for missing an example of a class, or ``{"under": 3,
    "over": 1}`` for a unit below and above a number. With ``learning_curve`` all are also trained on a half, a quarter
    ... of the training examples, which says whether more data would help. ``reading`` says how a file is read:
    ``target`` is the column to be predicted.
    """
    if isinstance(models, str):
        raise UsageError(f"the models to compare are a list of names; got {models!r}")
    candidates = [blueprint(model) for model in models or ()]
    if data is None or (isinstance(data, str) and not data):
        raise UsageError("compare needs data: the name of a data set, a file or folder, a data frame or arrays")
    for part in (part for candidate in candidates for part in candidate.everything()):
        if part.trained is not None:
            raise UsageError(f"compare trains every model from its start; name a model in place of {part.label}")
        if missing := part.missing():
            raise UsageError(f"{part.cls.name()} needs the argument {missing[0]}: {part.cls.name()}:{missing[0]}=...")
    folder = Path(out) if out is not None else free(Path("runs") / "compare")
    forms = Forms(data, reading_of(reading))
    chosen: list[str] = []
    with kept():
        if models is None or not candidates:
            candidates, chosen = choose(forms.with_all_sizes, budget)
            for sentence in chosen:
                notify(sentence)
        others = baselines_for(baselines, candidates, forms.with_all_sizes)
    content = run_jobs(
        candidates, forms, folder, seeds=seeds, budget=budget, epochs=epochs, baselines=others,
        cost=None if cost is None else read_cost(cost), learning_curve=learning_curve, chosen=chosen, notify=notify,
        quiet=quiet,
    )  # fmt: skip
    known = [*candidates, *(each for each in others if isinstance(each, Blueprint))]
    return Compared(content, folder, write_report(content, known, folder, forms))
