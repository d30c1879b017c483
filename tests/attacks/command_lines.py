"""Random command lines: every command, with options that are right, of the wrong type, huge, in any alphabet."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.attacks._frame import Trial, fault
from tests.attacks._installed import run_installed

WORDS = (
    "", "0", "-1", "1", "2", "7", "3.5", "-0.0", "nan", "inf", "-inf", "1e308", "1e-320", "2**3", "0x10", "1_000", "٣",
    "9223372036854775807", "99999999999999999999", "9" * 5000, "1000000000", "1000000,1000000", "1,2,3", "1,,2", ",",
    "true", "no", "none", "None", "abc", "relu", "sgd:momentum=0.9", "adam:betas=9/9", "cosine:warmup=-1", ":", "a:b=c",
    "a=b", "=", "ä ö", "日本語", "🎉", "\u202e", "e\u0301", "\udcff",
    "[red]x[/]", "{0}", "%s", "$HOME", "`x`", "*", "?",
    "-", "--", "---x", "--help", "\n", "\t", " ", "x" * 3000, "x y " * 2000, ".", "..", "/", "~", "/dev/null",
    "/dev/zero", "/dev/full", "/proc/self/mem", "/nowhere/at/all", "a/b/../c", "con.csv", "mine.py", "mine.py:Net",
    "mine.py:exits", "table.csv", "broken.csv", "folder", "pipe.csv", "link.csv", "images", "images:size=8",
    "images:size=99999",
)  # fmt: skip
"""Words that are put in the place of any other."""

DATA = (
    "moons", "digits", "digits:binary", "digits:labels=20", "text", "karate", "series", "dates", "table.csv",
    "table.csv:raw", "images:size=8", "ratings", "stories", "digits:levels", "moons:binary", "text:words",
    "text:bpe=300",
    "two-domains", "moving-digits:dequantized", "waves", "adding", "planted-graphs", "spots", "diabetes",
)  # fmt: skip

RUNS = {
    "classifier": "mlp --data moons", "density": "rbm --data digits:binary --units 4",
    "words": "lstm --data text --units 8", "forecaster": "deepar --data series --units 4",
    "translator": "seq2seq_attention --data dates --units 8", "vectors": "word2vec --data text:words --latent 8",
    "method": "regularized --model mlp --data moons",
}  # fmt: skip
"""Trained models that commands are given, and how they are trained: small, since what is attacked is what is typed."""

MINE = """
import sys
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x)
def exits():
    sys.exit(0)
"""


class Attack:
    """Command lines of random words; what they may read lies in the folder in which they run."""

    FAST, SLOW = 1, 6

    def __init__(self, folder: Path) -> None:
        from typer.main import get_command

        from deepcanon.catalogue import entries, questions
        from deepcanon.cli.app import app

        self.folder = folder
        self.commands: dict[str, Any] = dict(get_command(app).commands)  # type: ignore[attr-defined]
        self.models = [entry.name for entry in entries()]
        self.insights = [entry.name for entry in questions("insight")]
        self.studies = [entry.name for entry in questions("study")]
        self.made: set[str] = set()
        _files(folder)

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        for path in self.folder.iterdir():
            if path.name not in RUNS and not path.name.startswith("."):
                os.symlink(path, folder / path.name)
        words = [word for word in self._line(chance, folder) if "\0" not in word]
        ended = run_installed(words, folder)
        shown = " ".join(repr(word if len(word) < 80 else f"{word[:40]}...") for word in words)
        return Trial(f"deepcanon {shown}", fault(ended))

    def _line(self, chance: random.Random, folder: Path) -> list[str]:
        name = chance.choice([*self.commands, "train", "train", "train", "insight", "compare"])
        command = self.commands[name]
        words = [name, *self._arguments(name, chance, folder)]
        options = [option for each in command.params if each.opts[0].startswith("-") for option in each.opts[:1]]
        given = chance.sample(options, min(len(options), chance.choice([0, 0, 1, 1, 2, 4])))
        for option in given:
            if option not in BOUNDED.get(name, {}):
                words += self._option(option, chance)
        for option, values in BOUNDED.get(name, {}).items():
            words += [option, chance.choice(values)]
        if name in ("train", "insight", "microscope", "study"):
            own = self._own_options(words[-1] if name == "insight" else words[1] if len(words) > 1 else "")
            for option in chance.sample(own, min(len(own), chance.choice([0, 0, 1, 2]))):
                words += [option, chance.choice(WORDS)]
        if chance.random() < 0.15:
            words.insert(chance.randrange(len(words) + 1), chance.choice(WORDS))
        if chance.random() < 0.05:
            words.pop(chance.randrange(len(words)))
        return words

    def _own_options(self, name: str) -> list[str]:
        """The arguments of a model as options; of what is not one, those that some model has."""
        from deepcanon.catalogue import find
        from deepcanon.core import arguments_of

        if name not in self.models:
            return list(MODEL_OPTIONS)
        return [f"--{argument.replace('_', '-')}" for argument in arguments_of(find(name))]

    def _option(self, option: str, chance: random.Random) -> list[str]:
        usual = USUAL.get(option)
        if usual == ():
            return [option]
        value = chance.choice(usual) if usual is not None and chance.random() < 0.6 else chance.choice(WORDS)
        return [f"{option}={value}"] if option.startswith("--") and chance.random() < 0.3 else [option, value]

    def _arguments(self, name: str, chance: random.Random, folder: Path) -> list[str]:
        def run() -> str:
            return self._run(chance.choice(list(RUNS)), folder)

        usual: dict[str, Callable[[], list[str]]] = {
            "show": lambda: [chance.choice([*self.models, *self.insights, *self.studies, "moons"])],
            "train": lambda: [chance.choice(self.models)],
            "microscope": lambda: [chance.choice([*self.models, run()])],
            "insight": lambda: [chance.choice(self.insights), chance.choice([*self.models, run()])],
            "study": lambda: [],  # a study itself takes minutes
            "compare": lambda: chance.sample(
                ["gaussian", "mlp", "softmax_regression", "ppca", "vae", "nice:layers=1"], 2
            ),
            "check": lambda: [chance.choice(["mine.py:Net", "mine.py:exits", "mine.py:nobody", "other.py:Net"])],
            "translate": lambda: [self._run("translator", folder), chance.choice(WORDS) or "x"],
            "nearest": lambda: [self._run("vectors", folder), chance.choice(["the", "zzz", *WORDS])],
            "generate": lambda: [self._run("words", folder)],
            "forecast": lambda: [self._run("forecaster", folder)],
            "sample": lambda: [self._run("density", folder)],
        }
        if chance.random() < 0.2:
            return [chance.choice(WORDS) for _ in range(chance.choice([0, 1, 1, 2]))]
        if name in ("list", "data", "demo", "runs"):
            return []
        return usual.get(name, lambda: [run()])()

    def _run(self, kind: str, folder: Path) -> str:
        """A run of this kind in the folder of the trial; it is trained once."""
        base = self.folder / kind
        if kind not in self.made:
            self.made.add(kind)
            words = ["train", *RUNS[kind].split(), "--steps", "1", "--no-pictures", "--out", kind]
            if (ended := run_installed(words, self.folder)).code != 0:
                raise RuntimeError(ended.err)
        if not (folder / kind).exists():
            shutil.copytree(base, folder / kind)
        return kind


BOUNDED: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {"--steps": ("1", "2", "3", "0", "-1", "x", "99999999999999999999")},
    "compare": {"--budget": ("0.5", "1", "0", "-1", "nan"), "--data": DATA,
                "--baselines": ("none", "neighbors", "markov_chain,none", "", ","),
                "--cost": ("a=1", "1=2", "=", "0=nan"),
                "--out": ("compared", "table.csv", "/dev/null/x", "a/b/c")},
    "sample": {"--out": ("out.csv", "out.png", "out", "/dev/null")}, "unwrap": {"--out": ("out", "table.csv")},
    "export": {"--to": ("out.onnx", "out.safetensors", "out")}, "predict": {"--out": ("out.csv", "out.png")},
    "insight": {"--examples": ("1", "2", "8", "0")},
    "demo": {"--help": ("x",)},
    "study": {"--out": ("x",)},
}  # fmt: skip
"""Options without which a command may rightly take minutes."""

USUAL: dict[str, tuple[str, ...]] = {
    "--data": DATA, "--target": ("y", "a", "b", "kind", "nothing"), "--out": ("out", "out/deep/er", "out.png",
    "out.csv"),
    "--batch-size": ("1", "4", "1000000", "1000000000000"), "--lr": ("0.1", "0", "-1", "1e30", "1e-30"),
    "--optimizer": ("sgd", "adam", "lbfgs", "adamw:weight_decay=0.1", "muon", "sgd:momentum=2", "momentum"),
    "--schedule": ("constant", "cosine", "linear:end=0.5", "one_cycle", "power", "staircase:stages=0"),
    "--clip": ("1", "norm:1", "value:0.5", "norm:-1"), "--threads": ("1", "2", "99999999999", "0"),
    "--seed": ("0", "1", "-1", "18446744073709551616"), "--watch": ("loss", "max:accuracy", "nothing"),
    "-n": ("1", "5", "1000000000", "0"), "--steps": ("1", "5", "1000000000"), "--samples": ("2", "1000000000000"),
    "--beams": ("1", "3", "100000"), "--prompt": ("a", "The ", ""), "--to": ("x", "y", "out.onnx", "out.safetensors"),
    "--as": ("classifier", "contract", "flow", "nothing"), "--device": ("cpu", "cuda", "meta",
    "tpu"), "--examples": ("1", "4"),
    "--seeds": ("1", "2"), "--precision": ("fp32", "bf16"), "--freeze": ("*", "layers.*",
    "nothing"), "--seconds": ("9", "0"),
    "--json": (), "--overwrite": (), "--deterministic": (), "--evaluate-all": (), "--help": (), "--version": (),
}  # fmt: skip

MODEL_OPTIONS = (
    "--hidden", "--latent", "--layers", "--units", "--model", "--model.hidden", "--likelihood", "--activation",
    "--width",
    "--channels", "--features", "--classes", "--dropout", "--head", "--components", "--depth", "--embedding",
    "--timesteps",
    "--no-bias", "--strength", "--nonsense", "--members", "--margin", "--rank", "--heads", "--length", "--patch",
    "--blocks",
)  # fmt: skip


def _files(folder: Path) -> None:
    """What the words name: tables, images, a pipe, a module."""
    chance = random.Random(0)
    rows = [f"{chance.gauss(0, 1):.3f},{chance.gauss(0, 1):.3f},{'uv'[i % 2]},{'xyz'[i % 3]}" for i in range(60)]
    (folder / "table.csv").write_text("\n".join(["a,b,kind,y", *rows, ""]))
    (folder / "broken.csv").write_bytes(b'a,b\n1,"2\n3\xff,,')
    (folder / "mine.py").write_text(MINE)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe.csv")
    os.symlink(folder / "nowhere", folder / "link.csv")
    pixels = np.random.default_rng(0).integers(0, 255, size=(24, 9, 8, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        place = folder / "images" / ("cats", "dogs")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.png")
