"""The application answers fast, explains itself, and ends wrong usage with one sentence and the code 2."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from deepcanon.catalogue import find
from deepcanon.cli import app as application
from deepcanon.core import CheckpointError, DataError, arguments_of

HEAVY = ("torch", "numpy", "sklearn", "matplotlib", "scipy", "networkx")


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepcanon", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "--json"], ["train", "--help"], ["--version"]])
def test_help_and_lists_answer_without_torch(words: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['deepcanon', *{words!r}]\n"
        "from deepcanon.cli import main\n"
        "try:\n    main()\n"
        "finally:\n"
        f"    sys.stderr.write('loaded: ' + ' '.join(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert done.stderr == "loaded: "
    assert done.stdout
    # processor time, since other work on the machine stretches the time on the clock
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 1.5


@pytest.mark.slow
def test_without_arguments_the_help_is_shown() -> None:
    done = run()
    assert done.returncode == 0
    assert done.stderr == ""
    for command in ("list", "show", "data", "train", "resume", "evaluate", "predict", "sample", "generate", "runs",
                    "export", "check", "demo"):  # fmt: skip
        assert f" {command} " in done.stdout


def test_the_version_is_the_installed_one() -> None:
    assert run("--version").stdout == f"deepcanon {version('deepcanon')}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "deepcanon: No such command 'trian'. Did you mean 'train'?\n"),
        (["train"], "deepcanon: Missing argument 'NAME'.\n"),
        (["train", "mlpp"], "deepcanon: there is no model 'mlpp'; did you mean mlp?\n"),
    ],
)
def test_wrong_usage_is_one_sentence_on_stderr(words: list[str], sentence: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_errors_are_judged_by_whose_fault_they_are() -> None:
    judge = application._judge
    assert judge(DataError("no such column")) == ("no such column", 2)
    assert judge(CheckpointError("damaged")) == ("damaged", 1)
    assert judge(FileNotFoundError(2, "No such file or directory", "x.csv")) == ("x.csv: no such file or directory", 2)
    assert judge(PermissionError(13, "Permission denied", "out")) == ("out: permission denied", 2)
    assert judge(OSError(28, "No space left on device", "out")) == ("out: no space left on device", 1)
    assert judge(RuntimeError("a bug"))[0] is None


@pytest.mark.slow
def test_an_interrupted_training_exits_with_130_and_can_be_resumed(tmp_path: Path, call: Callable[..., Any]) -> None:
    folder = tmp_path / "run"
    words = ["train", "mlp", "--hidden", "8", "--steps", "100000", "--threads", "1", "--out", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "deepcanon", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert "epoch 1" in process.stdout.readline(), "the training has begun"
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in output
    assert f"deepcanon resume {folder}" in output
    assert "stopped" in call("runs", tmp_path).stdout


def test_the_help_of_train_lists_the_options_of_the_model(call: Callable[..., Any]) -> None:
    shown = call("train", "mlp", "--help").stdout
    plain = call("train", "--help").stdout
    listed = shown.partition("Options of mlp:")[2]
    assert [option for option in arguments_of(find("mlp")) if f" --{option} " not in listed] == []
    assert "The widths of the hidden layers" in shown
    assert " 256 " in shown
    assert "lr 0.002" in shown, "what the recipe sets unless options do"
    assert "The widths of the hidden layers" not in plain


@pytest.mark.parametrize(
    ("words", "option"),
    [(["insight", "landscape"], "--points"), (["study", "lottery"], "--seeds"), (["microscope", "vae"], "--latent")],
)
def test_so_does_the_help_of_insights_studies_and_the_microscope(
    words: list[str], option: str, call: Callable[..., Any]
) -> None:
    assert option in call(*words, "--help").stdout
    assert option not in call(words[0], "--help").stdout


def test_a_flag_takes_nothing_and_its_help_says_so(call: Callable[..., Any]) -> None:
    for command in ("train", "runs", "sample", "export", "insight"):
        shown = call(command, "--help").stdout
        assert "<bool>" not in shown
        assert "--json " in shown
