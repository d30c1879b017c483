"""The command line as it is installed, in a process of its own, which keeps itself within the machine's memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.attacks._frame import Ended, start


def run_installed(words: Sequence[str], cwd: Path, **limits: Any) -> Ended:
    """Run ``deepcanon WORDS`` to its end."""
    return start("tests.attacks._installed:main", list(words), cwd=cwd, **limits).wait()


def main(words: list[str]) -> None:
    from deepcanon.cli import main as installed

    sys.argv = ["deepcanon", *words]
    installed()
