"""What the server of the attacks imports once, so that the processes that it forks begin at once."""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import importlib

import matplotlib
import torch

NAMES = (
    "deepcanon.blueprints", "deepcanon.cli.app", "deepcanon.comparison.compare", "deepcanon.pictures",
    "deepcanon.questions", "deepcanon.runs.run", "rich.table", "scipy.sparse", "sklearn.datasets", "sklearn.metrics",
    "tests.attacks._frame", "torch._dynamo",
)  # fmt: skip
for name in NAMES:
    importlib.import_module(name)

matplotlib.use("Agg")
torch.set_num_threads(1)
