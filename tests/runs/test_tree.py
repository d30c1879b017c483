"""A tree comes back from its flat form as it was, to the bit."""

import json
import math

import pytest
import torch

from deepcanon.core import CheckpointError
from deepcanon.runs.tree import flatten, unflatten


def test_everything_an_optimizer_keeps_comes_back() -> None:
    tree = {
        "state": {0: {"step": torch.tensor(3.0), "dirs": [torch.ones(2), None], "ro": (0.1, -0.0)}},
        "flags": [True, False, 1, 2**60, "text", {"$": "not a mark"}],
        "numbers": [0.1, 1e-300, math.inf, -math.inf],
        "empty": [{}, [], (), ""],
    }
    plain, tensors = flatten(tree)
    back = unflatten(json.loads(json.dumps(plain, allow_nan=False)), tensors)
    assert repr(back) == repr(tree)
    assert back["flags"][0] is True
    assert type(back["state"][0]["ro"]) is tuple


def test_nan_comes_back() -> None:
    plain, tensors = flatten([math.nan])
    assert math.isnan(unflatten(plain, tensors)[0])


def test_what_cannot_be_held_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"a/b is a object"):
        flatten({"a": {"b": object()}})
