"""Rows of the table of runs: the last records are found wherever they stand near the end of a log."""

from __future__ import annotations

from pathlib import Path

from deepcanon.studio.views.runs import last_records, row
from tests.studio.made import epoch, make_run, step


def test_a_validation_long_before_the_end_of_the_log_is_found(tmp_path: Path) -> None:
    later = [step(number, 1 / number) for number in range(2, 1000)]
    run = make_run(tmp_path / "run", [step(1, 1.0), epoch(1, accuracy=0.25), *later])
    shown = row(run, tmp_path, {})
    assert (shown["step"], shown["valid"]) == (999, {"accuracy": 0.25})
    assert "valid.accuracy" in shown["curves"]


def test_records_of_thousands_of_terms_are_found(tmp_path: Path) -> None:
    terms = {f"term_{number}": 1.0 for number in range(3000)}
    run = make_run(tmp_path / "run", [step(number, 1.0, terms=terms) for number in (1, 2, 3)])
    assert len(row(run, tmp_path, {})["curves"]) == 3003


def test_torn_and_misleading_lines_are_passed_over(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [step(1, 0.5), epoch(1, nll=0.5)])
    with (run / "log.jsonl").open("ab") as log:
        log.write(b'{"kind": "epoch", "step": \n["\\"kind\\": \\"epoch\\""]\n{"kind": "step", "step": 2, "sec')
    steps, epochs = last_records(run)
    assert (steps["step"], epochs["valid"]) == (1, {"nll": 0.5})
