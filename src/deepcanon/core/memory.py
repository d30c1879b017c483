"""Memory: how much of it is free, whether something fits into it, and one sentence where it does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepcanon.core.errors import MemoryLimitError

UNLIMITED = 2**62
"""More than any machine has: the limit where there is none, or none is known."""

UNNOTICED = 2**26
"""So many bytes are had without asking, which takes a millisecond."""

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")

_FAILURES = re.compile(
    r"alloc_cpu|DefaultCPUAllocator|out of memory|bad_alloc|[Uu]nable to (mmap|allocate)|[Cc]annot allocate memory"
    r"|[Ss]torage size calculation overflow|numel: integer multiplication overflow|array is too big"
    r"|[Mm]aximum allowed dimension exceeded|cannot fit 'int' into an index-sized integer"
    r"|Python instance of type <class 'int'> to C\+\+|[Oo]verflow when unpacking long|Python int too large to convert",
)
"""How torch, NumPy and Python say that they have no more, or that a size is none that any machine has."""

_ASKED = re.compile(r"tried to allocate (\d+) bytes")


def need(size: float, what: str, remedy: str) -> None:
    """Refuse ``what``, which takes so many bytes, if they are not free; ``remedy`` says what to do instead.

    >>> need(8e15, "a table of 10^15 numbers", "take fewer rows")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.MemoryLimitError: a table of 10^15 numbers needs 8 PB of memory, and ... free; take fewer rows
    """
    if size > UNNOTICED and size > (free := free_memory()):
        raise MemoryLimitError(f"{what} needs {in_units(size)} of memory, and {in_units(free)} are free; {remedy}")


def free_memory() -> int:
    """The bytes that this process can still take: those of the machine, of its container and of its own limit."""
    return max(0, min(_free_in_machine(), *_free_in_containers(), _free_by_own_limit()))


def in_units(size: float) -> str:
    """So many bytes in the unit that suits them.

    >>> in_units(4e12), in_units(120_500_000), in_units(7)
    ('4 TB', '120 MB', '7 bytes')
    """
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:,.0f} {UNITS[power]}" if size >= 100 else f"{size:.2g} {UNITS[power]}"


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory could not be had."""
    kinds = RuntimeError | ValueError | OverflowError | OSError | TypeError
    return isinstance(error, MemoryError) or (isinstance(error, kinds) and bool(_FAILURES.search(str(error))))


def sentence_about(error: BaseException) -> str:
    """What an allocator has said, in words.

    >>> sentence_about(RuntimeError("DefaultCPUAllocator: you tried to allocate 4000000000000 bytes"))[:45]
    'there is not enough memory: 4 TB were needed '
    """
    asked = _ASKED.search(str(error))
    needed = f"{in_units(int(asked[1]))} were needed at once, and " if asked else ""
    return f"there is not enough memory: {needed}{in_units(free_memory())} are free"


@contextmanager
def enough_for(what: str, remedy: str) -> Iterator[None]:
    """Inside, memory that could not be had ends in one sentence."""
    try:
        yield
    except MemoryLimitError:
        raise
    except Exception as error:
        if not ran_out(error):
            raise
        raise MemoryLimitError(f"{what}: {sentence_about(error)}; {remedy}") from error


def limit_to_machine() -> None:
    """Let this process fail to have more memory than the machine has, which can be said, before the system kills it."""
    if sys.platform != "linux":
        return
    import resource

    facts = _machine()
    total = min(facts.get("MemTotal", UNLIMITED) + facts.get("SwapTotal", 0), *(limit for limit, _ in _containers()))
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    if before == resource.RLIM_INFINITY and total < UNLIMITED:
        resource.setrlimit(resource.RLIMIT_DATA, (total, most))


def _free_in_machine() -> int:
    facts = _machine()
    return facts["MemAvailable"] + facts.get("SwapFree", 0) if "MemAvailable" in facts else UNLIMITED


def _machine() -> dict[str, int]:
    """What Linux says of the memory of the machine, in bytes; elsewhere nothing."""
    rows = (line.split() for line in _text(Path("/proc/meminfo")).splitlines())
    return {row[0].rstrip(":"): 1024 * int(row[1]) for row in rows if len(row) == 3}


def _free_in_containers() -> Iterator[int]:
    yield UNLIMITED
    for limit, used in _containers():
        yield limit - used


def _containers() -> Iterator[tuple[int, int]]:
    """The limit of each control group that the process is in, and what is used of it; files that it has read may go."""
    yield UNLIMITED, 0
    root = Path("/sys/fs/cgroup")
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        old = controllers == "memory"
        if not old and controllers:
            continue
        top = root / "memory" if old else root
        limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if old else ("memory.max", "memory.current")
        group = top / path.lstrip("/")
        for folder in [group, *(parent for parent in group.parents if parent.is_relative_to(top))]:
            most = _text(folder / limit).strip()
            if most.isdecimal():
                rows = (row.split() for row in _text(folder / "memory.stat").splitlines())
                files = sum(int(row[1]) for row in rows if row[0] in ("inactive_file", "active_file"))
                yield int(most), max(0, int(_text(folder / used).strip() or 0) - files)


def _free_by_own_limit() -> int:
    """What the limits of the process itself (``ulimit -v``, ``ulimit -d``) leave."""
    if sys.platform != "linux":
        return UNLIMITED
    import resource

    status = dict(line.split(":", 1) for line in _text(Path("/proc/self/status")).splitlines() if ":" in line)
    left = UNLIMITED
    for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY and used in status:
            left = min(left, limit - 1024 * int(status[used].split()[0]))
    return left


def _text(file: Path) -> str:
    """The content of a file of the system; nothing where there is no such file."""
    try:
        return file.read_text()
    except OSError:
        return ""
