"""Commands of a page, as a reader would type them: those of ``deepcanon`` in this process, which has torch already."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

WIDTH = 84
"""The columns of the terminal that a page shows: as many as the text is wide."""


class CommandError(Exception):
    """A command that ended otherwise than its page says."""


def run(text: str, code: int = 0, last: int = 0) -> str:
    """What the commands print to standard output, one after the other; each must end with this exit code.

    Of long outputs only so many of the ``last`` lines are given. Files are named as seen from the working folder.
    """
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    said = "".join(_run(line, code) for line in lines).replace(f"{os.getcwd()}/", "").splitlines(keepends=True)
    return "".join(["...\n", *said[-last:]] if last and len(said) > last else said)


def _run(line: str, code: int) -> str:
    words = shlex.split(line, comments=True)
    ended, said, complaint = _own(words[1:]) if words[0] == "deepcanon" else _others(line)
    if ended != code:
        raise CommandError(f"`{line}` ended with the exit code {ended} in place of {code}:\n{said}\n{complaint}")
    return said


def _own(words: list[str]) -> tuple[int, str, str]:
    from typer.testing import CliRunner

    from deepcanon.cli.app import app
    from deepcanon.core import apart

    apart.call_apart = _called_here  # a page is a process of its own
    os.environ["COLUMNS"] = str(WIDTH)
    answer = CliRunner().invoke(app, words)
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, answer.stdout, answer.stderr


def _called_here(function: str, *arguments: Any, runs: str, seconds: float) -> Any:
    """What a function gives that a command calls in a new process, which would import torch again."""
    module, _, name = function.partition(":")
    return json.loads(json.dumps(getattr(importlib.import_module(module), name)(*arguments)))


def _others(line: str) -> tuple[int, str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # as where the library is installed
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    return done.returncode, done.stdout, done.stderr
