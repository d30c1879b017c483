"""The random states of torch, NumPy and Python: seeded for a run, saved with it, and given back to the caller after."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

State = dict[str, Tensor]


def seed_from(*parts: object) -> int:
    """A seed that differs for each combination of parts.

    >>> seed_from(0, "epoch", 1) == seed_from(0, "epoch", 1) != seed_from(0, "epoch", 2)
    True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1


def seed_torch(seed: int) -> None:
    """As ``torch.manual_seed``, which notes down a stack trace for each kind of accelerator that is not there."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def seed_all(seed: int) -> None:
    seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (code that draws from NumPy's global state must resume alike)


def state() -> State:
    """All random states as tensors, of the same shapes in every process."""
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.stack(cuda) if cuda else torch.empty(0, dtype=torch.uint8),
        "python": torch.tensor([version, *internal, gauss is not None]),
        "python_gauss": torch.tensor(gauss or 0.0, dtype=torch.float64),
        "numpy": torch.tensor([*np.asarray(keys).tolist(), position, has_gauss]),
        "numpy_gauss": torch.tensor(cached, dtype=torch.float64),
    }


def restore(saved: State) -> None:
    torch.set_rng_state(saved["torch"])
    if len(saved["cuda"]) and len(saved["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(list(saved["cuda"]))
    version, *internal, has_gauss = saved["python"].tolist()
    random.setstate((version, tuple(internal), saved["python_gauss"].item() if has_gauss else None))
    *keys, position, has_gauss = saved["numpy"].tolist()
    cached = saved["numpy_gauss"].item()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, cached))  # noqa: NPY002


@contextmanager
def kept() -> Iterator[None]:
    """Whatever happens inside, the random states are the same afterwards."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(cuda)
