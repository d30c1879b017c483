"""The file tree is the registry; other packages join through entry points."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deepcanon
from deepcanon import catalogue
from deepcanon.cli.app import app
from deepcanon.core import UsageError
from deepcanon.core.toy import Toy


@pytest.mark.slow
def test_every_model_file_is_an_entry_and_is_found_by_its_name() -> None:
    root = Path(deepcanon.__file__).parent
    files = [*root.glob("models/*/*.py"), *root.glob("methods/*.py")]
    names = {file.stem for file in files if not file.stem.startswith("_")}
    assert {entry.name for entry in catalogue.entries()} == names
    assert {"softmax_regression", "mlp", "vae", "gan", "hopfield"} <= names
    for entry in catalogue.entries():
        cls = catalogue.find(entry.name)
        assert cls.name() == entry.name
        assert cls.__doc__ is not None
        assert entry.summary == cls.__doc__.strip().splitlines()[0]


def test_names_forgive_case_and_hyphens_and_near_misses_get_advice() -> None:
    assert catalogue.find("Softmax-Regression") is catalogue.find("softmax_regression")
    with pytest.raises(UsageError, match=r"did you mean hopfield\?"):
        catalogue.find("hopfeild")
    with pytest.raises(UsageError, match="deepcanon list"):
        catalogue.find("zzzz")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that is installed as pip installs one: its files, and its metadata with entry points."""
    name = f"nets_of_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "densities.py").write_text(
        "from deepcanon.core.toy import Toy\n\n\n"
        "class Cloud(Toy):\n"
        '    """A cloud of points.\n\n    Also known as: fog, mist.\n    """\n\n\n'
        "class MLP(Toy):\n"
        '    """A density that is called as a model that comes along."""\n'
    )
    (tmp_path / name / "broken.py").write_text("import does_not_exist_anywhere\n")
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-nets\nVersion: 1.0\n")
    points = {
        "my-cloud": "densities:Cloud", "mlp": "densities:MLP", "broken": "broken:Net", "path": "densities:Toy.__class__"
    }  # fmt: skip
    lines = [f"{point} = {name}.{place}" for point, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{catalogue.GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield name
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    catalogue.entries.cache_clear()
    catalogue._points.cache_clear()


def test_an_installed_package_adds_models_by_an_entry_point(package: str) -> None:
    cloud = catalogue.find("my-cloud")
    assert cloud.__module__ == f"{package}.densities"
    assert catalogue.find("My_Cloud") is catalogue.find("Cloud") is cloud
    assert (catalogue.name_of(cloud), catalogue.name_of(Toy)) == ("my-cloud", "Toy")
    entries = {entry.name: entry for entry in catalogue.entries() if entry.family == "some-nets"}
    assert entries["my-cloud"].summary == "A cloud of points."
    assert entries["my-cloud"].also_known_as == ("fog", "mist")
    assert catalogue.find("mlp").__module__ == "deepcanon.models.feedforward.mlp"
    assert entries["mlp"].summary.startswith(
        f"Hidden by deepcanon's own model of this name; as {package}.densities:MLP"
    )
    with pytest.raises(UsageError, match=r"broken:Net, which some-nets adds as broken, cannot be imported: ModuleNotF"):
        catalogue.find("broken")
    with pytest.raises(UsageError, match="not a deepcanon Model"):
        catalogue.find("path")


def test_the_command_line_lists_and_shows_what_packages_add(package: str) -> None:
    listed = CliRunner().invoke(app, ["list", "--family", "some-nets"]).stdout
    assert "my-cloud" in listed
    assert "A cloud of points." in listed
    shown = CliRunner().invoke(app, ["show", "my-cloud"]).stdout
    assert "A cloud of points." in shown
    assert "deepcanon train my-cloud" in shown


def test_a_run_of_a_registered_class_needs_no_class(package: str, tmp_path: Path) -> None:
    run = deepcanon.Run.train("my-cloud", "moons", out=tmp_path / "run", steps=2, quiet=True)
    assert run.info["classes"]["Cloud"]["module"] == f"{package}.densities"
    assert deepcanon.Run(run.dir).evaluate()["test"] == pytest.approx(run.scores["test"])
    run.folder.update(classes={"Cloud": {"module": "another.module"}})  # what is not registered is not imported
    with pytest.raises(UsageError, match=r"if you trust another\.module, add --class another\.module:Cloud"):
        deepcanon.load(run.dir)


def test_listing_needs_no_torch() -> None:
    code = "import sys, deepcanon.catalogue as c; c.entries(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_result_in_a_docstring_is_one_that_a_paper_reports() -> None:
    """What the library itself reaches is measured by a command, and stands where that is: in docs and benchmarks."""
    claims = 0
    for entry in catalogue.entries():
        for paragraph in (inspect.getdoc(catalogue.find(entry.name)) or "").split("\n\n"):
            for sentence in re.split(r"(?<=[a-z0-9)])[.:;] ", " ".join(paragraph.split())):
                if re.search(r"\d nats\b|\d (?:%|percent)(?=\W)", sentence):
                    claims += 1
                    assert re.search(r"paper .*\([A-Z]\w+.*\d{4}\).* reports|benchmarks/\w+\.py", sentence), (
                        f"{entry.name}: {sentence}"
                    )
    assert claims >= 3
