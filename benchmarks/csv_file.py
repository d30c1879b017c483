"""Reading a CSV file of some 46 MB, compared with pandas.

    python benchmarks/csv_file.py [--rounds 15] [--json results.json]

Both read the same file, which the script writes, into columns: numbers in double precision, texts. "numbers" has 24
columns of 17 digits and a class, "mixed" numbers of few digits, whole numbers, missing values, quoted texts and
categories. "load" is all that ``load_data`` does besides: the split, the standardized and one-hot encoded tensors; its
peer reads by pandas and does the same by scikit-learn. One thread each; processor time, for others may work on the
machine, too.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from side_by_side import interleaved, table
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from deepcanon.data import load_data
from deepcanon.data.tables.csv_file import read

WORDS = ('"alpha, beta"', "gamma", "delta", "epsilon", "NA", '"zeta"', "theta", "iota")


def write_numbers(path: Path, rows: int = 98_000) -> None:
    random = np.random.default_rng(0)
    classes = random.integers(0, 3, rows)
    with path.open("w") as file:
        file.write(",".join([*(f"x{column}" for column in range(24)), "y"]) + "\n")
        for values, label in zip(random.normal(size=(rows, 24)).tolist(), classes.tolist(), strict=True):
            file.write(",".join([*map(repr, values), str(label)]) + "\n")


def write_mixed(path: Path, rows: int = 300_000) -> None:
    random = np.random.default_rng(0)
    parts = (
        random.normal(size=(rows, 9)).round(4),
        random.integers(0, 1000, (rows, 6)),
        random.integers(0, 8, (rows, 6)),
    )
    with path.open("w") as file:
        file.write(",".join([*(f"c{column}" for column in range(21)), "y"]) + "\n")
        for numbers, counts, words in zip(*(part.tolist() for part in parts), strict=True):
            shown = ["" if value > 2 else repr(value) for value in numbers[1:]]
            file.write(",".join([*shown, *map(str, counts), *(WORDS[word] for word in words), repr(numbers[0]), "1\n"]))


def by_peers(path: Path) -> object:
    """What ``load_data`` gives, by pandas and scikit-learn."""
    rows = pd.read_csv(path)
    y = torch.from_numpy(rows.pop("y").to_numpy(copy=True))
    numeric = rows.select_dtypes("number").columns
    encode = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numeric),
            ("words", OneHotEncoder(), [name for name in rows if name not in numeric]),
        ],
        sparse_threshold=0,
    )
    train, rest = train_test_split(
        np.arange(len(rows)), test_size=0.3, random_state=0, stratify=y if len(y.unique()) > 1 else None
    )
    encode.fit(rows.iloc[train])
    return [torch.from_numpy(encode.transform(rows.iloc[part])).float() for part in (train, rest)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, write, target in (("numbers", write_numbers, "y"), ("mixed", write_mixed, None)):
            path = Path(folder) / f"{name}.csv"
            write(path)
            title = f"{name}, {path.stat().st_size / 1e6:.0f} MB"
            reading = {"ours": partial(read, path), "pandas": partial(pd.read_csv, path)}
            found[f"read {name}"] = table(
                f"read {title}", interleaved(reading, asked.rounds, clock=time.process_time), "ours"
            )
            loading: dict[str, Callable[[], object]] = {
                "ours": partial(load_data, path, target=target),
                "pandas and scikit-learn": partial(by_peers, path),
                "pandas alone": partial(pd.read_csv, path),
            }
            found[f"load {name}"] = table(
                f"load {title}", interleaved(loading, max(1, asked.rounds // 3), clock=time.process_time), "ours"
            )
    if asked.json:
        versions = {"pandas": pd.__version__, "torch": torch.__version__, "machine": platform.machine()}
        asked.json.write_text(json.dumps({**versions, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
