"""Requests for more memory than there is: sizes, counts and lengths, on a machine that has little of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.attacks._frame import Trial, fault, run_command
from tests.attacks._installed import run_installed

ROOM = 3 * 2**30
"""The bytes of address space of a process; importing the library takes half a gigabyte of them."""

COUNTS = ("100000", "10000000", "1000000000", "1000000000000", "9223372036854775807", "99999999999999999999")


class Attack:
    """A command with one huge number, in a process of bounded memory."""

    FAST, SLOW = 1, 6

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        words = [word.replace("N", chance.choice(COUNTS)) for word in chance.choice(LINES).split()]
        if words[0] != "train" and words[1] in RUNS:
            shutil.copytree(self._run(words[1]), folder / words[1])
        ended = run_installed(words, folder, memory=ROOM)
        return Trial(f"deepcanon {' '.join(words)}", fault(ended))

    def _run(self, name: str) -> Path:
        """A run that commands read, trained when it is first wanted."""
        if not (self.folder / name).exists():
            words = ["train", *RUNS[name].split(), "--steps", "1", "--out", name]
            ended = run_command(words, self.folder, pictures=False)
            assert ended.code == 0, ended.err
        return self.folder / name


RUNS = {
    "rbm": "rbm --data digits:binary --units 4", "lstm": "lstm --data text --units 4",
    "deepar": "deepar --data series", "gaussian": "gaussian --data moons",
}  # fmt: skip


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
    "compare mlp:hidden=N gaussian --data moons --out c --budget 1 --baselines none",
    "train mlp --data text:bpe=N --steps 1",
)  # fmt: skip
