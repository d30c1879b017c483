"""The page of one run: what it was asked for, what it has reached and costs, its pictures, and what to do next."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core.errors import DeepcanonError
from deepcanon.core.files import as_json, unseal
from deepcanon.core.stored import read_file
from deepcanon.studio.plain import is_plain
from deepcanon.studio.unknown import UnknownId
from deepcanon.studio.views.runs import holder, row

PICTURES = (".png", ".svg")


def run_page(folder: Path, root: Path, locks: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """All that the page of a run shows but its curves."""
    shown = row(folder, root, locks)
    try:
        info = unseal(read_file(folder / "run.json"), folder / "run.json")
    except (OSError, DeepcanonError):
        info = {}
    info = {} if shown["status"] == "damaged" else info
    results = info.get("results", {})
    page = shown | {
        "environment": info.get("environment", {}),
        "results": {part: results.get(part, {}) for part in ("train", "valid", "test")},
        "says": [*info.get("fallbacks", []), *results.get("course", []), *results.get("says", [])],
        "weights": info.get("weights"),
        "pictures": [path.relative_to(folder / "pictures").as_posix() for path in pictures(folder)],
        "resources": resources(folder, locks),
        "commands": commands(folder, info),
    }
    return as_json(page)  # type: ignore[no-any-return]


def pictures(folder: Path) -> list[Path]:
    """The pictures of a run in their order; links are left out, since they may lead anywhere."""
    found: list[Path] = []
    if (folder / "pictures").is_symlink():
        return found
    for place, folders, files in os.walk(folder / "pictures"):
        folders.sort()
        paths = (Path(place) / name for name in sorted(files, key=_by_number) if name.endswith(PICTURES))
        found += [path for path in paths if is_plain(path)]
    return found


def _by_number(name: str) -> list[tuple[int, str]]:
    """What names are sorted by so that step 4 comes before step 17."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def picture(folder: Path, number: int) -> Path:
    """The picture of this number in their order."""
    listed = pictures(folder)
    if not 0 <= number < len(listed):
        raise UnknownId(f"this run has {len(listed)} pictures")
    return listed[number]


def resources(folder: Path, locks: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """What a run takes: bytes on the disk and, while it trains, memory and processor time of its process."""
    taken: dict[str, Any] = {"disk": _size(folder)}
    process = holder(folder, locks)
    if process is None:
        return taken
    try:
        status = Path(f"/proc/{process}/status").read_text()
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        ticks = os.sysconf("SC_CLK_TCK")
        processor = (int(times[11]) + int(times[12])) / ticks
        uptime = float(Path("/proc/uptime").read_text().split()[0]) - int(times[19]) / ticks
    except (OSError, StopIteration, ValueError, IndexError):  # it has just ended
        return taken
    return taken | {"memory": int(kilobytes) * 1024, "processor": processor, "since": uptime}


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # a checkpoint that was replaced meanwhile
                continue
    return total


def commands(folder: Path, info: Mapping[str, Any]) -> dict[str, str]:
    """The commands that go on with a run, or use it."""
    place = shlex.quote(str(folder))
    if not info:
        return {}
    unfinished = info["status"] in ("running", "stopped")
    again = {"resume": f"deepcanon resume {place}"} if unfinished else {"evaluate": f"deepcanon evaluate {place}"}
    return again | {"look inside": f"deepcanon microscope {place} --out graph.html"}
