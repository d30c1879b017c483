"""The command ``demo``: a small comparison on handwritten digits, which come along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli._parse import Json, Threads
from deepcanon.cli._print import Output
from deepcanon.cli.compare import compare

DATA = "digits"
MODELS = (
    "softmax_regression", "mlp", "gaussian", "gaussian_mixture", "ppca", "realnvp", "ddpm", "gan",
    "rbm", "nade", "vae:likelihood=bernoulli",
)  # fmt: skip
BUDGET = 15.0


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where to put it; by default, a new folder runs/demo.", metavar="DIR")
    ] = None,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Compare eleven families of models on handwritten digits, and write a report that says which fits best."""
    from deepcanon.core.files import free

    folder = out or free(Path("runs") / "demo")
    Output(json).say(
        f"This is: deepcanon compare {' '.join(MODELS)} --data {DATA} --budget {BUDGET:g} --baselines none "
        f"--threads {threads} --out {folder}\nIt takes about a minute and a half."
    )
    compare(names=list(MODELS), data=DATA, out=folder, budget=BUDGET, threads=threads, baselines="none", json=json)
