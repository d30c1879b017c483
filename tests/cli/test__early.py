"""Mistakes that names show are answered before torch is imported, as are help and lists."""

import subprocess
import sys
from pathlib import Path

import pytest

from deepcanon.catalogue import arguments_in_file, entries, find
from deepcanon.cli._early import data_names
from deepcanon.core import Model, UsageError, arguments_of
from deepcanon.core.spec import is_model
from deepcanon.data.load import entries as data_entries

ANSWERED = {
    "": "Usage: deepcanon",
    "--help": "Usage: deepcanon",
    "--version": "deepcanon 0.1.0",
    "train --help": "Usage: deepcanon train",
    "list": "variational",
    "list --family nosuch": "there is no family 'nosuch'",
    "insight": "landscape",
    "study": "double_descent",
    "runs": "there is no folder runs; 'deepcanon train' makes runs",
    "runs .": "There are no runs in .",
    "nosuch": "No such command 'nosuch'",
    "show nosuch": "there is no model 'nosuch'",
    "train nosuch": "there is no model 'nosuch'; 'deepcanon list' shows all",
    "train mlpp --epochs 3": "there is no model 'mlpp'; did you mean mlp?",
    "train mlp --hiden 3": "mlp takes no --hiden; did you mean --hidden?",
    "train mlp --epochs three": "Invalid value for '--epochs'",
    "train mlp --epochs 0": "epochs must be a whole number of at least 1, got 0",
    "train mlp --lr -1": "lr must be a positive number, got -1.0",
    "train bagging --model nosuch": "there is no model 'nosuch'",
    "train bagging --model mlp --model.hiden 3": "mlp takes no --model.hiden; did you mean --model.hidden?",
    "train mlp --data digist": "there are no data 'digist'; did you mean digits?",
    "compare vae --data digist:binary --out c": "there are no data 'digist'; did you mean digits?",
    "microscope vae --data nosuch --out x.html": "there are no data 'nosuch'",
    "compare vae nosuch:latent=3 --data moons --out c": "there is no model 'nosuch'",
    "insight nosuch": "there is no insight 'nosuch'",
    "insight landscape nosuch": "there is no model 'nosuch'",
    "study nosuch": "there is no study 'nosuch'",
    "microscope nosuch --out x.html": "there is no model 'nosuch'",
    **dict.fromkeys(
        [
            "evaluate nowhere", "resume nowhere", "predict nowhere --out p.csv", "sample nowhere --out s.png",
            "generate nowhere", "forecast nowhere", "translate nowhere word", "nearest nowhere word",
            "export nowhere --to x.onnx", "unwrap nowhere --out x",
        ],
        "nowhere is not a run: it has no run.json",
    ),
}  # fmt: skip
"""Command lines, and what is in their answer."""

PROGRAM = """
import contextlib, io, sys
from deepcanon.cli.app import app
for line in sys.stdin.read().splitlines():
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        app(line.split(), prog_name="deepcanon")
    heavy = [name for name in ("torch", "pyarrow", "matplotlib", "scipy") if name in sys.modules]
    print(line, *heavy, " ".join(said.getvalue().split()), sep="|")
    if heavy:
        break
"""


@pytest.mark.slow
def test_what_names_show_is_answered_without_torch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="\n".join(ANSWERED), capture_output=True, text=True, cwd=tmp_path,
        check=True, timeout=120,
    )  # fmt: skip
    answers = dict(line.split("|", 1) for line in done.stdout.splitlines())
    for line, expected in ANSWERED.items():
        assert expected in answers[line], line
        assert not answers[line].startswith("torch"), line
    assert list(answers) == list(ANSWERED)


@pytest.mark.slow
def test_the_arguments_in_the_file_of_a_model_are_those_of_its_constructor() -> None:
    """What is refused by names alone is what would be refused later."""
    for entry in entries():
        written, there = arguments_in_file(entry.name), arguments_of(find(entry.name))
        assert written is not None, entry.name
        assert list(written) == list(there), entry.name
        models = [name for name, parameter in there.items() if is_model(parameter.annotation)]
        assert [name for name, annotation in written.items() if "Model[" in annotation] == models, entry.name


def test_a_constructor_that_is_not_written_in_the_file_is_not_guessed() -> None:
    assert arguments_in_file("nosuch") is None
    with pytest.raises(UsageError, match="there is no model 'nosuch'"):
        find("nosuch")
    assert issubclass(find("mlp"), Model)


def test_the_names_of_data_are_those_of_their_entries() -> None:
    assert sorted(data_names()) == sorted(data_entries())
