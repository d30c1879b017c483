"""The folders that are damaged or made up: small runs and a comparison, and the commands that read each of them."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attacks._frame import Ended, run_command, start

TABLE = "size,color,price\n" + "".join(
    f"{i % 17},{'red' if i % 3 else 'blue'},{(i % 17) * 2 + i % 3}\n" for i in range(90)
)


@dataclass(frozen=True)
class Base:
    """A folder by the command that makes it, and the commands that read it; if ``begun``, its training was killed."""

    words: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    begun: bool = False


COMPARED = ("gaussian", "ppca:latent=1", "--data", "moons", "--baselines", "none")
FAST = ("--threads", "1")
BASES = {
    "mlp": Base(
        ("train", "mlp", "--data", "moons", "--hidden", "8", "--steps", "30", "--checkpoint-every", "10", *FAST),
        (("evaluate", "X", "--json"), ("resume", "X", "--json"), ("runs", ".", "--json"),
         ("predict", "X", "--out", "p.csv", "--json"), ("export", "X", "--to", "m.safetensors", "--json")),
    ),
    "begun": Base(
        ("train", "vae", "--data", "digits", "--hidden", "8", "--latent", "2", "--steps", "30",
         "--checkpoint-every", "10", "--ema", "0.9", "--patience", "50", *FAST),
        (("resume", "X", "--json", *FAST), ("runs", ".", "--json"), ("evaluate", "X", "--json")),
        begun=True,
    ),
    "table": Base(
        ("train", "mlp", "--data", "table.csv", "--target", "price", "--hidden", "8", "--steps", "20", *FAST),
        (("evaluate", "X", "--json"), ("predict", "X", "--data", "table.csv", "--out", "p.csv", "--json")),
    ),
    "text": Base(
        ("train", "lstm", "--data", "text:bpe=300", "--units", "4", "--steps", "3", *FAST),
        (("generate", "X", "--prompt", "def", "--steps", "5", "--json"), ("runs", ".", "--json")),
    ),
    "translated": Base(
        ("train", "seq2seq_attention", "--data", "dates", "--units", "4", "--steps", "3", *FAST),
        (("translate", "X", "3 may 1984", "--json"), ("runs", ".", "--json")),
    ),
    "sampled": Base(
        ("train", "gaussian_mixture", "--data", "moons", "--components", "2", *FAST),
        (("sample", "X", "-n", "5", "--out", "s.csv", "--json"), ("evaluate", "X", "--json")),
    ),
    "compared": Base(
        ("compare", *COMPARED, *FAST),
        (("compare", *COMPARED, "--out", "X", "--json", *FAST),
         ("runs", "X", "--json")),
    ),
}  # fmt: skip


class Bases:
    """The folders, each made when it is first wanted, and what the commands say of them while they are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[tuple[str, ...], Any] = {}

    def copy(self, name: str, place: Path) -> None:
        """A copy of the folder of this name, called X, with what its commands need beside it."""
        made = self.folder / name
        if not made.exists():
            made.mkdir()
            (made / "table.csv").write_text(TABLE)
            if BASES[name].begun:
                ended = start("tests.attacks._bases:begin", list(BASES[name].words), cwd=made).wait()
            else:
                ended = run_command([*BASES[name].words, "--out", "X"], made, pictures=False)
            assert ended.code == (-signal.SIGKILL if BASES[name].begun else 0), ended.err
        shutil.copytree(made, place, dirs_exist_ok=True)

    def wanted(self, name: str, command: tuple[str, ...], place: Path) -> Any:
        """The answer of a command about the folder while that is whole."""
        key = (name, *command)
        if key not in self.known:
            whole = place / "whole"
            self.copy(name, whole)
            ended = run_command(command, whole, pictures=False)
            self.known[key] = said(ended)
            shutil.rmtree(whole)
        return self.known[key]


def begin(words: list[str]) -> None:
    """Train, and die at the second checkpoint: in the child."""
    from tests.attacks._frame import deepcanon
    from tests.processes import die_at

    die_at(20)
    deepcanon([*words, "--out", "X", "--json"], pictures=False)


def said(ended: Ended) -> Any:
    """The answer of a command for programs, without times."""
    line = next(iter(ended.out.splitlines()[-1:]), "")
    try:
        return _timeless(json.loads(line))
    except ValueError:
        return line


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in ("seconds", "created", "per_second")}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
