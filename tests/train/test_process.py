"""What surrounds a training leaves the machine as fast as it can be."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back after every step")
def test_memory_that_a_step_frees_is_there_for_the_next() -> None:
    """The page faults of steps that take and free 64 MB are counted by the system.

    A block may find another place once, and is faulted in there once; without the setting, every step pays that: of
    blocks beyond 32 MB glibc never learns to keep them by itself.
    """
    script = """
import resource, torch
from deepcanon.train.process import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
keep_freed_memory()
torch.ones(2**24)
print(first, faults())
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    by_default, kept = map(int, run.stdout.split())
    assert 10 * kept < by_default
