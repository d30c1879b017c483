"""What a user installs: one version, every file of the package, and a command that works away from this tree."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import deepcanon

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "deepcanon"


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, far from this tree and from what the environment adds to Python's path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a copy, so that nothing an earlier build has left in the tree gets into it."""
    copy = tmp_path_factory.mktemp("tree") / "copy"
    shutil.copytree(PACKAGE, copy / "src" / "deepcanon", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", cwd=copy)
    (built,) = (copy / "dist").iterdir()
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    ours = {f"deepcanon/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert {"deepcanon/py.typed", "deepcanon/__main__.py"} <= ours
    assert {Path(name).suffix for name in ours} >= {".py", ".html", ".css", ".js"}
    names = zipfile.ZipFile(wheel).namelist()
    about = f"deepcanon-{deepcanon.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(about)} == ours
    assert about + "licenses/LICENSE" in names


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Other libraries are lent by the environment of the tests; ours is only what the wheel has brought."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python, command = (tmp_path / "venv" / "bin" / name for name in ("python", "deepcanon"))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files are not read again
    found = run(python, "-c", "import deepcanon; print(deepcanon.__file__, deepcanon.__version__)", cwd=tmp_path)
    assert found.split() == [str(site / "deepcanon" / "__init__.py"), deepcanon.__version__]

    assert run(command, "--version", cwd=tmp_path).split() == ["deepcanon", deepcanon.__version__]
    assert "--out" in run(command, "demo", "--help", cwd=tmp_path)
    run(command, "train", "softmax_regression", "--data", "digits", "--epochs", "1", "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "run.json").is_file()


def test_the_version_stands_in_one_place_and_in_the_citation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "deepcanon.__version__"}
    assert version("deepcanon") == deepcanon.__version__
    number = re.compile(rf"(?<![\d.]){re.escape(deepcanon.__version__)}(?![\d.])")
    texts = [path for kind in ("src/**/*.py", "*.toml", "*.cff", "README.md", "docs/*.md") for path in ROOT.glob(kind)]
    assert [path for path in texts if number.search(path.read_text(encoding="utf-8"))] == [
        PACKAGE / "__init__.py",
        ROOT / "CITATION.cff",
    ]


def test_the_changelog_begins_with_this_version() -> None:
    titles = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - (unreleased, as of )?\d{4}-\d\d-\d\d", title) for title in titles)
    assert titles[0].startswith(f"[{deepcanon.__version__}] - ")
    assert not any("unreleased" in title for title in titles[1:])
