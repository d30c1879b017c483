"""Files made up, with checksums that are right: what no schema allows is answered in a sentence with its name."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.attacks._bases import BASES, Bases
from tests.attacks._frame import Trial, fault, run_command

MEMORY = 6 * 2**30
"""Bytes that a command may ask for: what is made up must not fill the machine."""
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3.5, -1e308, 1e308, 2**31, 10**30, -(10**30), "", "x", "\0", "../../x", "\ud800",
    "é" * 9, "x" * 100_000, [], [[]], {}, [None], {"": None}, {"model": "mlp", "arguments": {}}, {"$": "tensor"},
    [1] * 50_000, {"kind": "bytes"}, "nan", "adam:lr=nan", ["a", "a"], [0, 0], [-1], [10**12],
)  # fmt: skip
"""Values in place of those that belong there."""


class Attack:
    FAST, SLOW = 1, 7

    def __init__(self, folder: Path) -> None:
        self.bases = Bases(folder)

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        name = chance.choice(list(BASES))
        self.bases.copy(name, folder)
        command = chance.choice(BASES[name].commands)
        files = sorted((folder / "X").rglob("*.json")) + sorted((folder / "X").rglob("*.safetensors"))
        file = chance.choice([path for path in files if path.name != "manifest.json" or chance.random() < 0.2])
        how = craft_json(file, chance) if file.suffix == ".json" else craft_tensors(file, chance)
        ended = run_command(command, folder, memory=MEMORY)
        what = f"{name}/{file.relative_to(folder / 'X')}, {how}; deepcanon {' '.join(command)}"
        named = ended.code == 0 or "X" in ended.err
        return Trial(what, fault(ended) or ("" if named else f"it names no file: {ended.err:.300}"))


def craft_json(file: Path, chance: random.Random) -> str:
    """Change one or two values of a file, and make its checksums right again."""
    content = json.loads(file.read_bytes())
    sealed = isinstance(content, dict) and content.pop("seal", None) is not None
    told = [_changed(content, chance) for _ in range(chance.choice((1, 1, 2)))]
    if sealed:
        raw = (json.dumps({**content, "seal": hashlib.sha256(_dumped(content)).hexdigest()}, indent=1) + "\n").encode()
    else:
        raw = json.dumps(content).encode()
    file.write_bytes(raw)
    _renew(file)
    return "; ".join(told)


def craft_tensors(file: Path, chance: random.Random) -> str:
    """Other tensors, headers that cannot be, or something else altogether; the checksums are right."""
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    name = chance.choice(names)
    kind = chance.choice(
        ("missing", "extra", "shape", "dtype", "offsets", "long header", "no header", "pickle", "renamed", "overlap",
         "huge shape", "not finite", "empty", "metadata")
    )  # fmt: skip
    match kind:
        case "missing":
            del header[name]
        case "extra":
            header["more"] = {**header[name]}
        case "shape":
            header[name]["shape"] = chance.choice(([1, *header[name]["shape"]], header[name]["shape"][::-1], [], [-1]))
        case "dtype":
            header[name]["dtype"] = chance.choice(("I8", "F64", "BOOL", "F8_E4M3", "X", 3))
        case "offsets":
            header[name]["data_offsets"] = chance.choice(([0, 2**60], [-1, 4], [4, 0], [0], "x"))
        case "renamed":
            header[name[::-1] + "\u202e"] = header.pop(name)
        case "overlap":
            header = {each: {**header[each], "data_offsets": header[name]["data_offsets"]} for each in names}
        case "huge shape":
            header[name]["shape"] = [2**40, 2**40]
        case "metadata":
            header["__metadata__"] = {"a": {"b": 1}}
        case _:
            pass
    text = json.dumps(header).encode()
    raw = struct.pack("<Q", len(text)) + text + data
    if kind == "long header":
        raw = struct.pack("<Q", 2**63) + text + data
    elif kind == "no header":
        raw = data
    elif kind == "pickle":
        raw = pickle.dumps({"state": [1, 2, 3]})
    elif kind == "not finite":
        raw = raw[: 8 + len(text)] + b"\xff" * len(data)
    elif kind == "empty":
        raw = struct.pack("<Q", 2) + b"{}"
    file.write_bytes(raw)
    _renew(file)
    return f"{name}: {kind}"


def _changed(content: Any, chance: random.Random) -> str:
    """Change one value of a tree, and say which."""
    places = list(_places(content, ()))
    holder, key, path = chance.choice(places)
    where = ".".join(map(str, path))[:60]
    match chance.randrange(5):
        case 0 if isinstance(holder, dict):
            del holder[key]
            return f"without {where}"
        case 1 if isinstance(holder, dict):
            holder["unheard-of"] = chance.choice(ODD)
            return f"more in {where}"
        case 2:
            other, name, _ = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[name])) if name in other or isinstance(other, list) else None
            return f"another value in {where}"
        case 3 if isinstance(holder[key], list | dict):
            deep: Any = 1
            for _ in range(chance.choice((10, 60, 900))):
                deep = [deep]
            holder[key] = deep
            return f"nested {where}"
        case _:
            value = chance.choice(ODD)
            holder[key] = value
            return f"{where} = {str(value)!r:.40}"


def _places(content: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """All places in a tree of JSON; of a long list only the first few."""
    items = (
        content.items() if isinstance(content, dict) else enumerate(content[:3]) if isinstance(content, list) else ()
    )
    for key, value in list(items):
        yield content, key, (*path, key)
        yield from _places(value, (*path, key))


def _renew(file: Path) -> None:
    """Make the checksums right that other files have of this one."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest, info = file.parent / "manifest.json", file.parent / "run.json"
    if manifest.is_file() and file != manifest:
        files = json.loads(manifest.read_bytes())["files"]
        files[file.name] = {"bytes": file.stat().st_size, "sha256": digest}
        _seal(manifest, {"files": files})
    if file.name == "model.safetensors":
        content = json.loads(info.read_bytes())
        content.pop("seal")
        _seal(info, {**content, "sha256": digest})


def _seal(path: Path, content: dict[str, Any]) -> None:
    """The seal of the library, written a second time: nothing of ours helps to attack us."""
    path.write_text(json.dumps({**content, "seal": hashlib.sha256(_dumped(content)).hexdigest()}, indent=1) + "\n")


def _dumped(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
