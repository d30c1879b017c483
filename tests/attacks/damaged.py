"""Files of runs and comparisons damaged at random: the command answers, and never with another number in silence."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attacks._bases import BASES, Bases, said
from tests.attacks._frame import Ended, Trial, fault, run_command

Damage = Callable[[bytes, random.Random], bytes]


class Attack:
    FAST, SLOW = 1, 7

    def __init__(self, folder: Path) -> None:
        self.bases = Bases(folder)

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        name = chance.choice(list(BASES))
        self.bases.copy(name, folder)
        command = chance.choice(BASES[name].commands)
        wanted = self.bases.wanted(name, command, folder)
        files = sorted(path for path in (folder / "X").rglob("*") if path.is_file() and path.suffix in READ)
        file = chance.choice(files)
        kind = chance.choice([*DAMAGES, "remove", "exchange", "a folder"])
        if kind == "remove":
            file.unlink()
        elif kind == "a folder":
            file.unlink()
            file.mkdir()
        elif kind == "exchange":
            shutil.copy(chance.choice([path for path in files if path != file]), file)
        else:
            file.write_bytes(DAMAGES[kind](file.read_bytes(), chance))
        ended = run_command(command, folder, pictures=False)
        what = f"{name}/{file.relative_to(folder / 'X')}, {kind}; deepcanon {' '.join(command)}"
        return Trial(what, fault(ended) or silence(ended, wanted, file.relative_to(folder)))


def silence(ended: Ended, wanted: Any, file: Path) -> str:
    """What is wrong with an answer that is another than that about the whole folder and does not name the damage."""
    if ended.code != 0 or said(ended) == wanted:
        return ""
    told = ended.err + ended.out
    named = any(part in told for part in (str(file), str(file.parent))) and ("damaged" in told or "not a run" in told)
    return "" if named else f"it says something else in silence: {said(ended)!s:.200}"


READ = {".json", ".jsonl", ".safetensors"}
"""The endings of the files that are read again; pictures and pages are not."""


def _flip(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]


def _digit(raw: bytes, chance: random.Random) -> bytes:
    """Another digit in place of one, so that JSON stays JSON."""
    places = [place for place, byte in enumerate(raw) if 48 <= byte < 58]
    if not places:
        return _flip(raw, chance)
    place = chance.choice(places)
    return raw[:place] + bytes([48 + (raw[place] - 48 + chance.randrange(1, 10)) % 10]) + raw[place + 1 :]


def _zeros(raw: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(raw))
    end = min(len(raw), start + chance.choice((1, 512, 4096)))
    return raw[:start] + bytes(end - start) + raw[end:]


def _twice(raw: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(raw) + 1) for _ in range(2))
    return raw[:end] + raw[start:]


def _without(raw: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(raw) + 1) for _ in range(2))
    return raw[:start] + raw[end:]


DAMAGES: dict[str, Damage] = {
    "one bit": lambda raw, chance: _flip(raw, chance) if raw else b"\0",
    "one digit": lambda raw, chance: _digit(raw, chance) if raw else b"0",
    "cut": lambda raw, chance: raw[: chance.randrange(len(raw) + 1)],
    "zeros": lambda raw, chance: _zeros(raw, chance) if raw else bytes(9),
    "noise": lambda raw, chance: chance.randbytes(max(1, len(raw))),
    "a part twice": _twice,
    "a part lost": _without,
    "more": lambda raw, chance: raw + chance.randbytes(chance.randrange(1, 99)),
    "empty": lambda raw, chance: b"",
    "other ends of lines": lambda raw, chance: raw.replace(b"\n", b"\r\n"),
    "another encoding": lambda raw, chance: raw.decode("latin1").encode("utf-16"),
}
