"""Runs that several tests of the command line use, and a short way to call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import make_classification
from typer.testing import CliRunner

from deepcanon.cli.app import app


class CallResult:
    """The result of a call of the command line."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def json(self) -> dict[str, Any]:
        """The last line of stdout, which must be JSON in the strict sense: without NaN."""

        def refuse(word: str) -> None:
            raise ValueError(f"{word} is not JSON")

        answer: dict[str, Any] = json.loads(self.stdout.splitlines()[-1], parse_constant=refuse)
        return answer


Call = Callable[..., CallResult]


@pytest.fixture(scope="session")
def call() -> Call:
    """Call the command line in this process; an error that would be a traceback is raised."""

    def call(*words: object) -> CallResult:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return CallResult(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """A folder with a run of each model, trained for a moment."""
    folder = tmp_path_factory.mktemp("runs")
    for model, data, *more in (
        ("mlp", "digits", "--hidden", "16", "--epochs", "2"),
        ("vae", "digits", "--latent", "3", "--hidden", "16", "--epochs", "1"),
        ("gan", "eight-gaussians", "--hidden", "8", "--steps", "5"),
        ("hopfield", "digits:binary"),
    ):
        trained = call("train", model, "--data", data, "--out", folder / model, "--threads", "1", *more)
        assert trained.code == 0, trained.stderr
    return folder


@pytest.fixture(scope="session")
def frauds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imbalanced table: of 1,500 rows 3 % are frauds, which differ from the others in a few columns."""
    x, y = make_classification(
        n_samples=1500, n_features=6, n_informative=3, weights=[0.97], flip_y=0.0, class_sep=0.6, random_state=0
    )
    path = tmp_path_factory.mktemp("tables") / "payments.csv"
    rows = (
        f"{','.join(f'{value:.4f}' for value in row)},{'fraud' if label else 'legit'}"
        for row, label in zip(x, y, strict=True)
    )
    path.write_text("\n".join([",".join([*"abcdef", "kind"]), *rows]) + "\n")
    return path
