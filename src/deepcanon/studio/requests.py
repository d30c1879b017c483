"""Reading what a page sends, its body and the numbers of its query, and answering it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse

from deepcanon.core.errors import UsageError


class Answer(JSONResponse):
    """JSON in ASCII: a text of a run may hold half a letter, which is not Unicode and cannot be sent as UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


Default = TypeVar("Default", float, None)


async def body_of(request: Request) -> dict[str, Any]:
    """The object that a request carries as JSON."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise UsageError("the body of this request is not JSON") from None
    if not isinstance(found, dict):
        raise UsageError("the body of this request is not an object of JSON")
    return found


def number_of(asked: Mapping[str, str], name: str, default: Default) -> float | Default:
    """A number of a query; ``default`` where it is not there."""
    if name not in asked:
        return default
    try:
        value = float(asked[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e15:
        raise UsageError(f"{name} must be a number, got {asked[name]!r:.40}")
    return value
