"""A table of 1,000,000 rows and 50 columns: its profile, an epoch of ``mlp`` and predictions, next to pandas.

    python benchmarks/tables.py [--rows 1000000] [--rounds 3] [--json results.json]

Each runs in a process of its own, one after the other, round after round: pandas reads the CSV file that the script
writes, a bare loop trains the same network for an epoch on tensors that are ready, and ours profiles the file, trains
on it from the file to the finished run, and predicts all of its rows into another. What counts is the processor time
without that of the imports, for others may work on the machine, too. Memory is the most that a process had at a time,
less what it had after the imports, in units of the data as float32. One thread each. It needs pandas: ``pip install -c
constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import importlib
import json
import multiprocessing
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

COLUMNS = 50
PARTS = 20


def write_table(path: Path, rows: int) -> None:
    """Forty-nine columns of numbers with five decimals, and a class that follows from two of them."""
    random = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join([*(f"x{column}" for column in range(COLUMNS - 1)), "y"]) + "\n")
        for count in np.diff(np.linspace(0, rows, PARTS + 1).astype(int)).tolist():
            x = random.normal(size=(count, COLUMNS - 1))
            labels = np.where(x[:, 0] + x[:, 1] + random.normal(0, 0.5, count) > 0, "yes", "no")
            lines = (",".join(["%.5f"] * (COLUMNS - 1)) % tuple(row) for row in x.tolist())
            file.writelines(f"{line},{label}\n" for line, label in zip(lines, labels.tolist(), strict=True))


def pandas_reads(path: Path, folder: Path) -> Callable[[], object]:
    import pandas as pd

    return lambda: pd.read_csv(path)


def bare_loop(path: Path, folder: Path) -> Callable[[], object]:
    """An epoch over seven tenths of the rows with the optimizer and the batches of ours, nothing measured."""
    import torch

    import deepcanon as dc

    with path.open() as file:
        rows = (sum(1 for _ in file) - 1) * 7 // 10
    x, y = torch.randn(rows, COLUMNS - 1), torch.randint(2, (rows,))
    model = dc.models.MLP(COLUMNS - 1, 2)

    def train() -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=model.recipe.lr, fused=True)
        for index in torch.randperm(rows).split(model.recipe.batch_size):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x.index_select(0, index)), y.index_select(0, index))
            loss.backward()
            optimizer.step()

    return train


def ours_profiles(path: Path, folder: Path) -> Callable[[], object]:
    from deepcanon.data.load import profile_of

    return lambda: profile_of(path, target="y")


def ours_trains(path: Path, folder: Path) -> Callable[[], object]:
    import deepcanon as dc

    return lambda: dc.Run.train("mlp", path, target="y", epochs=1, out=folder / "run", overwrite=True, quiet=True)


def ours_predicts(path: Path, folder: Path) -> Callable[[], object]:
    import deepcanon as dc
    from deepcanon.core.files import writing

    run = dc.Run(folder / "run")
    _ = run.model

    def predict() -> None:
        with writing(folder / "predictions.csv") as file:
            run.write_predictions(file, path)

    return predict


CANDIDATES = {
    "pandas reads": pandas_reads,
    "bare loop": bare_loop,
    "profile": ours_profiles,
    "train": ours_trains,
    "predict": ours_predicts,
}


IMPORTED = ("pandas", "pyarrow.csv", "pyarrow.compute", "matplotlib.pyplot", "deepcanon.runs.run")
"""What is imported first, so that nobody pays for it."""


def _measured(name: str, path: Path, folder: Path, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    for module in IMPORTED:
        importlib.import_module(module)
    work = CANDIDATES[name](path, folder)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    work()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pipe.send((time.process_time() - begun, 1024 * (most - before)))


def in_a_process(name: str, path: Path, folder: Path) -> tuple[float, float]:
    """The seconds of processor time and the bytes of memory that a candidate takes."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measured, args=(name, path, folder, theirs))
    process.start()
    theirs.close()
    found: tuple[float, float] = ours.recv()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    size = 4 * COLUMNS * asked.rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "table.csv"
        write_table(path, asked.rows)
        print(
            f"{asked.rows:,} rows of {COLUMNS} columns, {path.stat().st_size / 1e6:.0f} MB; as float32 {size / 1e6:.0f}"
        )
        rounds = [{name: in_a_process(name, path, folder) for name in CANDIDATES} for _ in range(asked.rounds)]
    found = {}
    for name in CANDIDATES:
        seconds = statistics.median(each[name][0] for each in rounds)
        memory = max(each[name][1] for each in rounds) / size
        reads = statistics.median(each[name][0] / each["pandas reads"][0] for each in rounds)
        both = statistics.median(each[name][0] / (each["pandas reads"][0] + each["bare loop"][0]) for each in rounds)
        found[name] = {"seconds": seconds, "of_pandas": reads, "of_pandas_and_loop": both, "memory": memory}
        print(
            f"  {name:14} {seconds:7.2f} s   {reads:5.2f}x of pandas   {both:5.2f}x of pandas and the bare loop   "
            f"memory {memory:.2f}x"
        )
    if asked.json:
        asked.json.write_text(json.dumps({"machine": platform.machine(), "rows": asked.rows, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
