"""Training loops side by side in one process: each runs a block of steps, then hands over to the next.

Every contender trains in a thread of its own with whatever loop its library has, and calls ``lap`` after each step.
Only one thread runs at a time, so that all see the same machine, the same load and the same caches; ratios of blocks
that stand next to each other are what is compared.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import torch

STEPS = 20


class Over(BaseException):
    """Ends a contender's loop from inside; not an Exception, so that no library catches it."""


class Contender:
    """One training loop; ``train`` gets the function to call after each step."""

    def __init__(self, name: str, train: Callable[[Callable[[], None]], None]) -> None:
        self.name = name
        self.blocks: list[float] = []
        self.failure: BaseException | None = None
        self._go, self._handed_over = threading.Semaphore(0), threading.Semaphore(0)
        self._over = False
        self._steps = 0
        self._begun = 0.0
        self._thread = threading.Thread(target=self._run, args=(train,), daemon=True)
        self._thread.start()

    def block(self) -> None:
        """Let it run one block of steps."""
        self._go.release()
        self._handed_over.acquire()
        if self.failure is not None:
            raise RuntimeError(f"{self.name} failed") from self.failure

    def end(self) -> None:
        self._over = True
        self._go.release()
        self._thread.join(timeout=60)

    def lap(self) -> None:
        self._steps += 1
        if self._steps % STEPS == 0:
            self.blocks.append(time.perf_counter() - self._begun)
            self._handed_over.release()
            self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        if self._over:
            raise Over
        self._begun = time.perf_counter()

    def _run(self, train: Callable[[Callable[[], None]], None]) -> None:
        torch.set_num_threads(1)  # OpenMP keeps the number of threads per thread
        try:
            self._wait()
            train(self.lap)
        except Over:
            pass
        except BaseException as failure:
            self.failure = failure
        self._handed_over.release()


def race(contenders: list[Contender], rounds: int, warm_up: int = 3) -> None:
    """Blocks of all contenders in turn; the first rounds, in which libraries set themselves up, do not count."""
    for number in range(warm_up + rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            contender.block()
    for contender in contenders:
        contender.blocks = contender.blocks[warm_up:]
        contender.end()


def ratio(slow: Contender, fast: Contender) -> float:
    """How many times faster ``fast`` is: the median over pairs of neighbouring blocks."""
    return statistics.median(a / b for a, b in zip(slow.blocks, fast.blocks, strict=True))
