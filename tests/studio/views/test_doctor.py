"""The doctor in the studio: verdicts as they were written, and the training that follows an advice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.core import CheckpointError
from deepcanon.diagnosis.health_report import Diagnosis, Report
from deepcanon.studio.views import doctor

QUICK: dict[str, Any] = {"steps": 3, "quiet": True, "evaluate": False, "pictures": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mlp"
    return dc.Run.train("mlp:hidden=4/3", "moons", out=out, lr=1e-7, **QUICK).dir


def examined(run: Path, *found: Diagnosis) -> None:
    report = Report("mlp", "moons", list(found), {"dead_units": {"share": 0.5}}, {"seeds": "the budget was spent"}, 1.5)
    report.save(run / "looks", overwrite=True)


LOW = Diagnosis(
    "learning rate too low",
    {"rate": 1e-7, "figure": "curves", "curves": {"as it is": [1.0, 1.0]}},
    "raise it: 0.1 does well here",
    change={"lr": 0.1},
    check="learning_rate",
)
SCALE = Diagnosis("unscaled inputs", {"spread": 100.0}, "standardize the inputs", check="input_scale", grade="note")


def test_a_run_that_was_not_examined_says_so(run: Path) -> None:
    shutil.rmtree(run / "looks", ignore_errors=True)
    assert doctor.examined(run) is None
    with pytest.raises(dc.UsageError, match="not examined"):
        doctor.training_after(run, 0)


def test_verdicts_are_those_of_the_report_with_what_would_change(run: Path) -> None:
    examined(run, LOW, SCALE)
    found = doctor.examined(run)
    assert found is not None
    first, second = found["verdicts"]
    assert (first["cause"], first["evidence"]["curves"]) == ("learning rate too low", {"as it is": [1.0, 1.0]})
    assert first["changes"] == [{"setting": "lr", "before": 1e-7, "after": 0.1}]
    assert first["meaning"].startswith("Learning rate")
    assert second["changes"] == []
    assert (found["healthy"], found["stale"], found["passed"]) == (False, False, {"dead_units": {"share": 0.5}})


def test_an_advice_becomes_a_training_that_differs_by_nothing_else(run: Path, tmp_path: Path) -> None:
    examined(run, LOW, SCALE)
    asked = doctor.training_after(run, 0)
    before = dc.Run(run).info
    assert (asked["model"], asked["data"], asked["arguments"]["hidden"]) == ("mlp", "moons", "4,3")
    assert "features" not in asked["arguments"]
    pytest.importorskip("starlette", reason="needs starlette, of deepcanon[studio]")
    from deepcanon.cli._parse import read_options
    from deepcanon.studio.studio import Studio
    from deepcanon.studio.views.training import train_words

    words, folder = train_words(Studio(tmp_path, caches=tmp_path), asked)
    assert folder.parent == tmp_path.resolve()
    options = read_options([word for word in words[2:] if word != "--json"])
    assert options["lr"] == ["0.1"]
    again = dc.Run.train("mlp:hidden=4/3", "moons", out=tmp_path / "again", lr=0.1, **QUICK).info
    assert {**before["settings"], "lr": 0.1} == again["settings"]
    assert options["steps"] == ["3"]
    with pytest.raises(dc.UsageError, match="not a change of settings"):
        doctor.training_after(run, 1)
    with pytest.raises(dc.UsageError, match="numbered from 0"):
        doctor.training_after(run, 2)


def test_only_settings_that_a_training_has_are_changed(run: Path) -> None:
    settings = dc.Run(run).info["settings"]
    assert doctor.changes({"lr": 1e-7, "out": "elsewhere", "clip": "norm:1"}, settings) == [
        {"setting": "clip", "before": None, "after": "norm:1"}
    ]


def test_a_damaged_report_is_a_sentence(run: Path) -> None:
    examined(run, LOW)
    (run / "looks" / "doctor.json").write_text("{")
    with pytest.raises(dc.UsageError, match="damaged"):
        doctor.examined(run)
    (run / "looks" / "doctor.json").write_text(json.dumps({"healthy": True}))
    with pytest.raises(CheckpointError, match="not what deepcanon writes"):
        doctor.examined(run)
