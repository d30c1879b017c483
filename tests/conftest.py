"""What all tests share: one thread, so that numbers repeat, and pictures without a screen."""

import matplotlib
import pytest
import torch

matplotlib.use("Agg")
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process waits at the end for another's long test."""
    items.sort(key=lambda item: "slow" not in item.keywords)
