"""Training loops side by side in one run: each trains a block of steps, then hands over to the next.

Every candidate trains in a process of its own with whatever loop its library has, and calls ``lap`` after each step; so
none meets the allocator, the thread settings or the caches that another has left behind. Only one runs at a time, so
that all see the same machine and the same load; ratios of blocks that stand next to each other are what is compared.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch

STEPS = 20


class Over(BaseException):
    """Ends a candidate's loop from inside; not an Exception, so that no library catches it."""


class Candidate:
    """One training loop; ``train`` gets the function to call after each step, and ``clock`` tells the time in seconds.

    On a machine that others work on, too, the process's own time (``time.process_time``) tells more than the wall's.
    """

    def __init__(
        self,
        name: str,
        train: Callable[[Callable[[], None]], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = name
        self.blocks: list[float] = []
        # A fork takes the data along without a copy, and ``train`` need not be importable.
        context = multiprocessing.get_context("fork")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_run, args=(train, other_end, clock), daemon=True)
        self._process.start()
        other_end.close()

    def block(self) -> None:
        """Let it run one block of steps."""
        self._pipe.send(True)
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"{self.name} failed:\n{answer}")
        self.blocks.append(answer)

    def end(self) -> None:
        self._pipe.send(False)
        self._process.join(timeout=60)


def _run(train: Callable[[Callable[[], None]], None], pipe: Connection, clock: Callable[[], float]) -> None:
    """What a candidate's process does: wait for its turn, train a block, say how long it took."""
    torch.set_num_threads(1)
    steps, begun = 0, 0.0

    def wait() -> None:
        nonlocal begun
        if not pipe.recv():
            raise Over
        begun = clock()

    def lap() -> None:
        nonlocal steps
        steps += 1
        if steps % STEPS == 0:
            pipe.send(clock() - begun)
            wait()

    try:
        wait()
        train(lap)
    except Over:
        return
    except BaseException:
        pipe.send(traceback.format_exc())


def race(candidates: list[Candidate], rounds: int, warm_up: int = 3) -> None:
    """Blocks of all candidates in turn; the first rounds, in which libraries set themselves up, do not count."""
    for number in range(warm_up + rounds):
        for candidate in candidates if number % 2 == 0 else reversed(candidates):
            candidate.block()
    for candidate in candidates:
        candidate.blocks = candidate.blocks[warm_up:]
        candidate.end()


def ratio(slow: Candidate, fast: Candidate) -> float:
    """How many times faster ``fast`` is: the median over pairs of neighboring blocks."""
    return statistics.median(a / b for a, b in zip(slow.blocks, fast.blocks, strict=True))
