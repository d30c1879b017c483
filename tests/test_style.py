"""The whole project is clean under ruff and mypy, and the continuous integration runs what the README says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_clean(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_begins_with_the_two_commands() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    demo, tests = blocks[:2]
    for block in (demo, tests):
        assert len(block.strip().splitlines()) == 1
        assert "-c constraints.txt" in block
    assert demo.strip().endswith("deepcanon demo")
    assert "pytest" in tests
