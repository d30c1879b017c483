"""Classes outside the catalogue: a run knows where they came from, and runs nothing that the user does not name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

import deepcanon as dc
from deepcanon.blueprints import named
from deepcanon.core import UsageError, named_code
from deepcanon.core.toy import Toy

SOURCE = """
from pathlib import Path

from deepcanon.core.toy import Toy

Path(__file__).with_name("ran").touch()  # the trace of code that runs


class Mine(Toy):
    '''A density of mine.'''

    def __init__(self, features: int, width: int = 3) -> None:
        super().__init__(features)


class MLP(Toy):
    '''A density that is called as a model of the catalogue is.'''


def made():
    return Mine(2, width=5)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def run(file: Path) -> dc.Run:
    """A finished run of a class of the file, the trace of which is swept away."""
    made = dc.Run.train(f"{file}:Mine:width=4", "moons", out=file.parent / "run", steps=2, quiet=True)
    (file.parent / "ran").unlink()
    named_code._READ.clear()  # so that it would run again
    return made


def test_a_run_records_where_its_class_came_from(file: Path, run: dc.Run) -> None:
    sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
    assert run.info["classes"] == {"Mine": {"file": str(file), "sha256": sha256}}
    assert run.info["model"] == {"model": "Mine", "arguments": {"features": 2, "width": 4}}
    assert dc.Run.train("mlp:hidden=3", "moons", out=file.parent / "mlp", steps=1, quiet=True).info["classes"] == {}


def test_loading_a_run_runs_no_code_that_is_not_named(file: Path, run: dc.Run) -> None:
    for attempt in (dc.load, dc.resume, lambda folder: dc.Run(folder).evaluate()):
        with pytest.raises(UsageError, match=rf"a run does not run code that you do not name.*--class {file}:Mine"):
            attempt(run.dir)
    # Nor is a name in run.json ever taken for code.
    run.folder.update(model={"model": f"{file}:Mine", "arguments": {}}, classes={})
    with pytest.raises(UsageError, match="a run does not run code"):
        dc.load(run.dir)
    assert not (file.parent / "ran").exists()
    named(f"{file}:Mine")  # whereas what is named runs
    assert (file.parent / "ran").exists()


def test_a_run_is_used_by_the_class_or_by_its_name(file: Path, run: dc.Run) -> None:
    weights = run.model.state_dict()["mean"]
    for own in (f"{file}:Mine", named(f"{file}:Mine"), [f"{file}:Mine"]):
        again = dc.Run(run.dir, own)
        assert torch.equal(again.model.state_dict()["mean"], weights)
        assert again.model.hparams["width"] == 4
    assert again.evaluate()["test"] == pytest.approx(run.scores["test"])
    assert again.sample(3).shape == (3, 2)
    assert dc.insight("curvature", again, examples=8).numbers
    run.folder.update(status="running")
    assert dc.resume(run.dir, model=f"{file}:Mine", quiet=True).steps == 2


def test_a_changed_file_is_said_and_a_missing_one_too(
    file: Path, run: dc.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    dc.load(run.dir, f"{file}:Mine")
    assert capsys.readouterr().err == ""
    file.write_text(f"{SOURCE}\n# a change\n")
    dc.load(run.dir, f"{file}:Mine")
    assert f"{file} is not as it was when {run.dir} was begun, so that Mine may be another" in capsys.readouterr().err
    file.unlink()
    with pytest.raises(UsageError, match=f"there is no file {file}"):
        dc.load(run.dir, f"{file}:Mine")
    with pytest.raises(UsageError, match=f"it came from {file}, which is no longer there: say where it is by --class"):
        dc.load(run.dir)


def test_a_class_that_the_run_does_not_hold_is_refused(run: dc.Run) -> None:
    with pytest.raises(UsageError, match="holds Mine, and no Toy: give the classes that it holds"):
        dc.load(run.dir, Toy)


def test_a_class_called_as_a_model_of_the_catalogue_is_not_taken_for_it(file: Path) -> None:
    run = dc.Run.train(f"{file}:MLP", "moons", out=file.parent / "mlp", steps=2, quiet=True)
    with pytest.raises(UsageError, match="MLP is a class outside the catalogue"):
        dc.load(run.dir)
    assert dc.load(run.dir, f"{file}:MLP").sample(2).shape == (2, 2)  # type: ignore[operator]


def test_a_class_inside_a_method_is_found_too(file: Path) -> None:
    run = dc.Run.train(f"noise_injection:model={file}:Mine", "moons", out=file.parent / "inner", steps=2, quiet=True)
    assert run.info["classes"].keys() == {"Mine"}
    assert run.info["model"]["model"] == "noise_injection"
    with pytest.raises(UsageError, match=f"--class {file}:Mine"):
        dc.load(run.dir)
    assert dc.Run(run.dir, f"{file}:Mine").evaluate()["test"] == pytest.approx(run.scores["test"])


def test_a_class_of_a_notebook_is_given_in_python(tmp_path: Path) -> None:
    class Local(Toy):
        """A density of a cell."""

    dc.fit(Local(2), torch.randn(8, 2), out=tmp_path, quiet=True, epochs=1)
    with pytest.raises(UsageError, match=r"give it as model=Local in Python, or by --class FILE\.py:Local"):
        dc.load(tmp_path)
    assert dc.load(tmp_path, Local).name() == "Local"


def test_two_classes_of_one_name_are_refused(file: Path, tmp_path: Path) -> None:
    inner = dc.blueprint(f"{file}:Mine").build({"features": 2})
    outer = type("Mine", (dc.find("noise_injection"),), {})(inner)
    with pytest.raises(UsageError, match="two classes of the model are called Mine"):
        dc.fit(outer, dc.load_data("moons"), out=tmp_path / "run", quiet=True, steps=1)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("Mine:wdith=3", "Mine takes no wdith"),
        ("Path", r"gives a Path, which is not a deepcanon\.Model"),
        ("made:width=3", "has its arguments already: leave out width=3"),
        ("nothing", "has no nothing; it has Mine, MLP, made"),
    ],
)
def test_what_is_not_a_model_is_said(file: Path, word: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        dc.blueprint(f"{file}:{word}")


def test_a_function_may_make_the_model(file: Path) -> None:
    run = dc.Run.train(f"{file}:made", "moons", out=file.parent / "made", steps=2, quiet=True)
    assert run.info["model"]["arguments"]["width"] == 5
    assert dc.load(run.dir, f"{file}:Mine").hparams["width"] == 5


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("class Half(Model):\n    pass", "Half does not define example and loss"),
        ("class Half(Toy):\n    def __init__(self, features: int, lr: float = 1.0): ...", "argument lr of .*rename it"),
        ("def Half():\n    return 1 / 0", r"Half\(\) failed with ZeroDivisionError"),
    ],
)
def test_a_class_that_could_not_be_trained_is_refused(tmp_path: Path, source: str, sentence: str) -> None:
    path = tmp_path / "half.py"
    path.write_text(f"from deepcanon.core import Model\nfrom deepcanon.core.toy import Toy\n{source}\n")
    with pytest.raises(UsageError, match=sentence):
        named(f"{path}:Half")
