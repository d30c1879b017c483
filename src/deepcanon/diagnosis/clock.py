"""The clock of an examination: every budget and every trial is measured by it."""

from __future__ import annotations

import time
from collections.abc import Callable

now: Callable[[], float] = time.perf_counter
"""Seconds, of which only differences mean anything; ``benchmarks/doctor.py`` sets it to the time of the processor, so
that what else runs on the machine does not shorten trials."""
