"""Requests for more memory than there is: sizes, counts and lengths, on a machine that has little of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.attacks._frame import Trial, fault
from tests.attacks._limited import run_limited

ROOM = 3 * 2**30
"""The bytes of address space of a process; importing the library takes half a gigabyte of them."""

COUNTS = ("100000", "10000000", "1000000000", "1000000000000", "9223372036854775807", "99999999999999999999")


class Attack:
    """A command with one huge number, in a process of bounded memory."""

    FAST, SLOW = 2, 5

    def __init__(self, folder: Path) -> None:
        from deepcanon.runs.run import Run

        self.folder = folder
        for name, model, data in (("rbm", "rbm:units=4", "digits:binary"), ("lstm", "lstm:units=4", "text"),
                                  ("deepar", "deepar", "series"), ("gaussian", "gaussian", "moons")):  # fmt: skip
            Run.train(model, data, out=folder / name, quiet=True, steps=1)

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        words = [word.replace("N", chance.choice(COUNTS)) for word in chance.choice(LINES).split()]
        for run in ("rbm", "lstm", "deepar", "gaussian"):
            if run in words:
                shutil.copytree(self.folder / run, folder / run)
        ended = run_limited(words, folder, memory=ROOM)
        return Trial(f"deepcanon {' '.join(words)}", fault(ended))


LINES = (
    "train mlp --data moons --steps 1 --hidden N", "train mlp --data digits --steps 1 --hidden N,N",
    "train mlp --data digits --steps 2 --batch-size N", "train vae --data digits --steps 1 --latent N",
    "train gpt --data text --steps 1 --embedding N", "train gpt --data text --steps 1 --layers N",
    "train lstm --data text --steps 1 --units N", "train lstm --data text:length=N --steps 1",
    "train cnn --data digits --steps 1 --hidden N", "train rbm --data digits:binary --steps 1 --units N",
    "train ddpm --data digits --steps 1 --timesteps N", "train bagging --data moons --model mlp --steps 1 --members N",
    "train rbm --data digits:binary --steps 1 --chains N", "train word2vec --data text:words --steps 1 --negatives N",
    "train word2vec --data text:words --steps 1 --latent N",
    "train gaussian_mixture --data moons --steps 1 --components N",
    "train mlp --data moons --steps 1 --accumulate N", "train mlp --data moons --steps 1 --keep N --patience N",
    "train realnvp --data moons --steps 1 --couplings N", "train hopfield --data digits:binary --patterns N",
    "sample rbm -n N --out x.csv", "sample gaussian -n N --out x.csv", "sample gaussian -n N --out x.png",
    "generate lstm --steps N", "generate lstm --top-k N --steps 3", "forecast deepar --samples N",
    "forecast deepar --steps N",
    "microscope mlp --data moons --hidden N --out x.html", "insight landscape mlp --data moons --hidden N",
    "compare mlp:hidden=N gaussian --data moons --out c --budget 1", "train mlp --data text:bpe=N --steps 1",
)  # fmt: skip
