"""The report of the doctor: what is ill and why, what was examined and what was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from deepcanon.core.display import Shown, notebook, sentences, table
from deepcanon.core.files import write_json
from deepcanon.core.plural import counted

Grade = Literal["fault", "suspicion", "note"]
"""A fault is confirmed; a suspicion has one piece of evidence, and is shown if asked for; a note blames nothing."""


@dataclass(frozen=True)
class Diagnosis(Shown):
    """A diagnosis: the cause that a check has found, with its evidence and one change that is advised."""

    cause: str
    """A short phrase in the field's words, such as ``softmax before cross-entropy``."""
    evidence: Mapping[str, Any]
    """The numbers that show it, in JSON's own types; ``figure`` names what is drawn of them (docs/doctor.md)."""
    advice: str
    """One change, as a sentence."""
    where: str = ""
    """The parameter, layer, row or step."""
    confirmed_by: str = ""
    """The exact test or the repair that has confirmed it."""
    margin: float | None = None
    """How far beyond its threshold the statistic lies, as a factor; None where the test is exact."""
    grade: Grade = "fault"
    check: str = ""
    """The name of the check, filled in by the doctor."""
    change: Mapping[str, Any] = field(default_factory=dict)
    """The training settings that make the change, where it is one of settings: ``{"lr": 0.001}``."""
    explains: tuple[str, ...] = ()
    """What later checks saw that this cause explains, filled in by the doctor."""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_short(value)}"
            for name, value in self.evidence.items()
            if isinstance(value, int | float | str) and name != "figure"
        )
        return f"{self.cause[:1].upper()}{self.cause[1:]}{place}{': ' + numbers if numbers else ''}; {self.advice}"

    def _facts(self) -> dict[str, Any]:
        return {"cause": self.cause, "grade": self.grade, "check": self.check, "where": self.where}

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "grade": self.grade,
            "cause": self.cause,
            "where": self.where,
            "evidence": dict(self.evidence),
            "advice": self.advice,
            "confirmed_by": self.confirmed_by,
            "margin": self.margin,
            "change": dict(self.change),
            "explains": list(self.explains),
        }


@dataclass
class Report(Shown):
    """The doctor's report; iterated, it gives the confirmed faults, the cause first."""

    subject: str
    data: str
    diagnoses: list[Diagnosis] = field(default_factory=list)
    passed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The checks that found nothing, with the numbers that they measured."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The checks that were not made, with the reason."""
    seconds: float = 0.0

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter([each for each in self.diagnoses if each.grade == "fault"])

    def __len__(self) -> int:
        return sum(each.grade == "fault" for each in self.diagnoses)

    def __bool__(self) -> bool:
        """True, also of a healthy training: ask ``healthy``, or go through the faults."""
        return True

    @property
    def healthy(self) -> bool:
        return len(self) == 0

    @property
    def suspicions(self) -> list[Diagnosis]:
        return [each for each in self.diagnoses if each.grade == "suspicion"]

    @property
    def notes(self) -> list[Diagnosis]:
        return [each for each in self.diagnoses if each.grade == "note"]

    def __str__(self) -> str:
        if self.healthy:
            return f"nothing found: {counted(len(self.passed), 'check')}, {self.seconds:.1f} s"
        return "\n".join(str(each) for each in self)

    def _facts(self) -> dict[str, Any]:
        return {"subject": self.subject, "data": self.data, "faults": [each.cause for each in self]}

    def _repr_html_(self) -> str:
        said = [str(each) for each in self] or [str(self)]
        numbers = table(["check", "numbers"], [(name, numbers) for name, numbers in self.passed.items()])
        return notebook(f"{self.subject} on {self.data}", sentences(said), numbers)

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "data": self.data,
            "healthy": self.healthy,
            "faults": [each.to_json() for each in self],
            "suspicions": [each.to_json() for each in self.suspicions],
            "notes": [each.to_json() for each in self.notes],
            "passed": self.passed,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 2),
        }

    def save(self, folder: Path | str, *, overwrite: bool = False) -> list[Path]:
        """Write ``doctor.json`` and the page ``doctor.html`` into a folder, each whole or not at all."""
        from deepcanon.core.files import with_folder, writable, write_whole
        from deepcanon.diagnosis.page import page

        numbers, sheet = (writable(Path(folder) / f"doctor{kind}", overwrite, kind) for kind in (".json", ".html"))
        write_json(with_folder(numbers), self.to_json())
        write_whole(sheet, page(self).encode())
        return [numbers, sheet]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
