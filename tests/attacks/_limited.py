"""The command line as it is installed, in a process whose processor time and memory are bounded."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.attacks._frame import LIMIT, Ended, start


def run_limited(words: Sequence[str], cwd: Path, memory: int | None = None) -> Ended:
    """Run ``deepcanon WORDS`` to its end, with a minute of processor time, however busy the machine is."""
    return start("tests.attacks._limited:main", list(words), cwd=cwd, memory=memory).wait(10 * LIMIT)


def main(words: list[str]) -> None:
    from deepcanon.cli import main as installed

    resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT)))
    sys.argv = ["deepcanon", *words]
    installed()
