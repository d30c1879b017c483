"""Libraries that tests compare ours with are no condition of running the other tests."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WITHOUT = """
import sys
from importlib.machinery import PathFinder

import pytest

hidden, find = sys.argv[1].split(","), PathFinder.find_spec
PathFinder.find_spec = classmethod(
    lambda cls, name, *places: None if name.partition(".")[0] in hidden else find(name, *places)
)
sys.exit(pytest.main(sys.argv[2:]))
"""
"""Runs pytest as if libraries were not installed."""


@cache
def peers() -> frozenset[str]:
    """What all extras but ``dev`` and those in it ask for, by the names that are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    within = {name for line in extras["dev"] if line.startswith("deepcanon[") for name in re.findall(r"\w+", line)[1:]}
    wanted = [line for extra in extras.keys() - {"dev", *within} for line in extras[extra]]
    return frozenset(re.split(r"[\[<>=]", line)[0].replace("-", "_") for line in wanted) - {"deepcanon"}


def collect(hidden: frozenset[str], *files: str | Path) -> subprocess.CompletedProcess[str]:
    options = ["--collect-only", "-qq", "--assert=plain", "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", WITHOUT, ",".join(hidden), *options, *files]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)


def importing(source: str) -> bool:
    """Whether a file imports a peer, or has its name as a string; no other file lacks a peer but by one of these."""
    names = "|".join(peers())
    return re.search(rf"\b(?:import|from) (?:{names})\b|[\"'](?:{names})[\"'.]", source) is not None


@pytest.mark.slow
def test_all_tests_are_found_where_no_peer_is_installed() -> None:
    assert {"zuko", "onnx", "array_api_strict"} <= peers()
    files = [path for path in sorted((ROOT / "tests").rglob("*.py")) if importing(path.read_text(encoding="utf-8"))]
    assert len(files) > 20
    done = collect(peers(), "src", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    whole = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert whole, "some files hold nothing but comparisons"
    assert all(re.search(r": (needs|.* not installed)", line) for line in whole), whole


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import zuko\n", True),
        ("    from diffusers.models import UNet2DModel\n", True),
        ('keras = pytest.importorskip("keras", reason="needs it")\n', True),
        ("importlib.import_module('onnx.helper')\n", True),
        ("torch.autograd.grad(y, x)  # as zuko does\n", False),
        ("import onnxlike\n", False),
    ],
)
def test_a_file_that_imports_a_peer_is_known(source: str, found: bool) -> None:
    assert importing(source) == found


@pytest.mark.slow
def test_a_file_that_takes_a_peer_for_granted_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "test_granted.py"
    path.write_text("import zuko\n\ndef test_it() -> None: ...\n")
    done = collect(peers(), path)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "No module named 'zuko'" in done.stdout
