"""Files from disk: bounded in size, parsed as JSON, held to a schema; what does not fit is said in one sentence.

Whatever the library reads back that it has written (runs, checkpoints, logs, comparisons, tokenizers) comes through
here, so that a file that is cut, altered or made up ends in a sentence with its name, and never in a traceback.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from deepcanon.core.errors import CheckpointError

MOST_JSON = 2**28
"""The most bytes of a JSON file; the vocabulary of a million words has a tenth of them."""
DEEPEST = 64
"""The most levels of JSON inside JSON: beyond them, functions that go through it would run out of stack."""
LONGEST = 300
"""Characters of a message about a file; what a crafted one holds need not be printed in full."""


def read_file(path: Path, most: int = MOST_JSON) -> bytes:
    """The content of a file; a folder, a pipe or a device in its place is refused, as is one of too many bytes."""
    try:
        if not path.is_file():  # a link that leads nowhere, a folder, a pipe, to open which would wait
            path.stat()
            raise CheckpointError(f"{path} is not a file that can be read")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise CheckpointError(f"{path} is damaged: it has {size:,} bytes, at most {most:,} belong there")
            return file.read()
    except OSError as error:
        raise CheckpointError(f"{path} is missing or cannot be read: {error.strerror}") from error


def read_text(path: Path, most: int = MOST_JSON) -> str:
    """The content of a file of text in UTF-8."""
    try:
        return read_file(path, most).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: its byte {error.start + 1} is not UTF-8") from error


def parse_json(raw: bytes | str, path: Path) -> Any:
    """The value that JSON holds; NaN and infinity, which JSON does not have, are refused."""
    try:
        value = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON") from error
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, dict | list)
        ]
        if not level:
            return value
    raise CheckpointError(f"{path} is damaged: it is nested deeper than {DEEPEST} levels")


def held_to(schema: Any, value: Any, path: Path, place: str = "") -> Any:
    """The value as it is, if it is what the schema (a TypedDict or another type) says; ``place`` is where it stands.

    >>> held_to(dict[str, int], {"steps": "many"}, Path("run.json"), "results")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.CheckpointError: run.json is not what deepcanon writes: results.steps: ...
    """
    from pydantic import ValidationError

    try:
        _adapter(schema).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in (*([place] if place else ()), *first["loc"]))
        raise CheckpointError(f"{path} is not what deepcanon writes: {where}: {first['msg']}"[:LONGEST]) from error
    return value


def fits(schema: Any, value: Any) -> bool:
    """Whether a value is what the schema (a TypedDict or another type) says; a whole number is a number, too.

    >>> fits(tuple[int, ...], (64, 32)), fits(int, "64"), fits(float, 1)
    (True, False, True)
    """
    from pydantic import ValidationError

    try:
        _adapter(schema).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@cache
def _adapter(schema: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(schema)


def _refuse(constant: str) -> None:
    raise ValueError(constant)
