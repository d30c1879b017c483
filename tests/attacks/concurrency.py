"""Several processes at one folder: one of them trains, the others say so or read, and nothing is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.attacks._bases import BASES, Bases, said
from tests.attacks._frame import Child, Trial, fault, start_command
from tests.attacks.kills import differences

TRAIN = ("train", "mlp", "--data", "moons", "--hidden", "8", "--steps", "60", "--checkpoint-every", "5", "--patience",
         "50", "--threads", "1", "--out", "X", "--json")  # fmt: skip
COMPARE = (*BASES["compared"].words, "--out", "X", "--json")
OTHERS = (
    ("resume", "X", "--json", "--threads", "1"), ("evaluate", "X", "--json"), ("runs", ".", "--json"), TRAIN,
    ("predict", "X", "--out", "p.csv", "--json"), (*TRAIN, "--overwrite"),
)  # fmt: skip


class Attack:
    FAST, SLOW = 1, 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bases = Bases(folder)

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        if chance.random() < 0.2:
            return self._compared(folder)
        alone = self.folder / "alone"
        if not alone.exists():
            alone.mkdir()
            assert start_command(TRAIN, alone, pictures=False).wait().code == 0
        first = start_command(TRAIN, folder, pictures=False)
        others: list[tuple[tuple[str, ...], Child]] = []
        for _ in range(chance.randrange(2, 5)):
            time.sleep(chance.uniform(0, 0.5))
            words = chance.choice(OTHERS)
            others.append((words, start_command(words, folder, pictures=False)))
        what = f"a training, and {'; '.join(' '.join(words) for words, _ in others)}"
        ends = [first.wait(), *(child.wait() for _, child in others)]
        wrong = next(filter(None, map(fault, ends)), "")
        last = start_command(
            OTHERS[0], folder, pictures=False
        ).wait()  # whoever came first, the run can be brought to its end
        wrong = wrong or fault(last) or (f"it cannot be resumed: {last.err:.300}" if last.code else "")
        return Trial(what, wrong or differences(alone / "X", folder / "X"))

    def _compared(self, folder: Path) -> Trial:
        """Two comparisons in one folder: one is refused, and the other has the numbers of one that was alone."""
        wanted = self.bases.wanted("compared", BASES["compared"].commands[0], folder)
        ends = [child.wait() for child in [start_command(COMPARE, folder) for _ in range(2)]]
        wrong = next(filter(None, map(fault, ends)), "")
        answers = [said(ended) for ended in ends if ended.code == 0]
        if not wrong and any(answer != wanted for answer in answers):
            wrong = "a comparison beside another one has other numbers"
        return Trial("two comparisons in one folder", wrong or ("" if answers else f"both failed: {ends[0].err:.300}"))
