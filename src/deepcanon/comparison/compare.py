"""A comparison of candidates on one data set: trained, measured, and set out in a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepcanon.blueprints import blueprint
from deepcanon.comparison.job import FILE, Comparison, run_jobs
from deepcanon.comparison.report import tables_of, write_report
from deepcanon.comparison.sentences import conclusions
from deepcanon.comparison.tables import Section, failures, sections
from deepcanon.core import Blueprint, Model, UsageError
from deepcanon.core.display import Shown, notebook, sentences
from deepcanon.core.files import free


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
        return tuple(sentence for section in self.sections for sentence in conclusions(section))

    def _facts(self) -> dict[str, Any]:
        asked = self.content["request"]
        ranked = [row.label for section in self.sections for row in section.rows]
        failed = {"failed": list(self.failures)} if self.failures else {}
        return {"data": asked["data"], "models": ranked, **failed, "report": str(self.report)}

    def _repr_html_(self) -> str:
        said = [*self.says, f"The report is {self.report}; all numbers are in {self.numbers}."]
        return notebook("Comparison", tables_of(self.sections), sentences(said))

    def __str__(self) -> str:
        return "\n".join([*self.says, f"The report is {self.report}; all numbers are in {self.numbers}."])


def compare(
    models: Sequence[str | type[Model[Any]] | Blueprint],
    data: str | Path,
    out: str | Path | None = None,
    *,
    target: str | None = None,
    seeds: int = 1,
    budget: float | None = None,
    notify: Callable[[str], None] = lambda sentence: None,
    quiet: bool = True,
) -> Compared:
    """Train several models on the same data and write a report that says which fits best.

    ``models`` are names, with arguments where wanted (``"vae:latent=4"``), or classes. Each gets the form of the data
    that it models: images as zeros and ones, or dequantized. Called again with the same folder, it goes on where it was
    broken off. ``budget`` is the most seconds for each training; ``notify`` is called with the progress.
    """
    if isinstance(models, str):
        raise UsageError(f"the models to compare are a list of names; got {models!r}")
    candidates = [blueprint(model) for model in models]
    if not isinstance(data, str | Path):
        raise UsageError(f"compare takes data by name, or a file or folder, got {type(data).__name__}")
    for part in (part for candidate in candidates for part in candidate.everything()):
        if part.trained is not None:
            raise UsageError(f"compare trains every model from its start; name a model in place of {part.label}")
        if missing := part.missing():
            raise UsageError(f"{part.cls.name()} needs the argument {missing[0]}: {part.cls.name()}:{missing[0]}=...")
    folder = Path(out) if out is not None else free(Path("runs") / "compare")
    content = run_jobs(
        candidates, str(data), folder, target=target, seeds=seeds, budget=budget, notify=notify, quiet=quiet
    )
    return Compared(content, folder, write_report(content, candidates, folder))
