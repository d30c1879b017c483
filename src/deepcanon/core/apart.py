"""Functions called in a process of their own: code of others may end it, crash it or never come back."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepcanon.core import errors
from deepcanon.core.errors import DeepcanonError


class EndedError(DeepcanonError):
    """A process that ended without an answer."""


def call_apart(function: str, *arguments: Any, runs: str, seconds: float) -> Any:
    """What a function, ``package.module:name``, returns for these arguments, all in JSON's types.

    It is called in a process of its own, which is given so many ``seconds``. ``runs`` is the file of the user that it
    runs; how the process ended, if not with an answer, is said of that file.
    """
    with tempfile.TemporaryDirectory(prefix="deepcanon-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", __name__, str(answer), function, runs, json.dumps(arguments)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise EndedError(
                f"{runs} did not end within {seconds:g} seconds; give it more time, or smaller sizes"
            ) from None
        finally:
            _end(process)
        try:
            given = json.loads(answer.read_bytes())
        except (OSError, ValueError):
            raise EndedError(f"{runs} {_how(code)} before it was checked") from None
    if "result" in given:
        return given["result"]
    raise getattr(errors, given["error"], EndedError)(given["sentence"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _how(code: int) -> str:
    """How a process ended, by its exit code.

    >>> _how(0), _how(-11)
    ('ended the process with the exit code 0', 'was ended by the signal SIGSEGV')
    """
    if code >= 0:
        return f"ended the process with the exit code {code}"
    return f"was ended by the signal {signal.Signals(-code).name}"


def _answer(words: Sequence[str]) -> None:
    """Call the function and write down what it returned, or what went wrong."""
    path, function, runs, arguments = words
    module, _, name = function.partition(":")
    try:
        content = {"result": getattr(importlib.import_module(module), name)(*json.loads(arguments))}
    except DeepcanonError as error:
        content = {"error": type(error).__name__, "sentence": str(error)}
    except SystemExit as error:
        content = {"error": "", "sentence": f"{runs} called sys.exit({error.code!r}) before it was checked"}
    except BaseException as error:
        content = {"error": "", "sentence": f"{runs} raised {type(error).__name__}: {error}{_where(error, runs)}"}
    Path(path).write_text(json.dumps(content))


def _where(error: BaseException, runs: str) -> str:
    """The line of the user's file at which an error was raised, if it was there."""
    file = os.path.realpath(runs.rpartition(":")[0] or runs)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, file)]
    return f" (line {lines[-1]})" if lines else ""


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == other


if __name__ == "__main__":
    _answer(sys.argv[1:])
