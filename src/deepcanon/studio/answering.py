"""Answers and parameters that the addresses of several views share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from deepcanon.core import UsageError
from deepcanon.core.files import as_json
from deepcanon.studio.requests import Answer
from deepcanon.studio.studio import Studio


class View:
    """The functions of a view, imported when one is called: torch takes longer to import than a page may wait."""

    def __init__(self, name: str) -> None:
        self._module = f"deepcanon.studio.views.{name}"

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return getattr(importlib.import_module(self._module), function)(*given, **named)

        return call


async def answered(function: Callable[..., Any], *given: Any, **named: Any) -> Response:
    """What a function gives, as JSON, from a thread of its own, so that others need not wait."""
    return Answer(as_json(await run_in_threadpool(function, *given, **named)))


async def computed(studio: Studio, function: Callable[..., Any], *given: Any, **named: Any) -> Response:
    """The same of a function that computes with torch, of which one runs at a time."""

    def alone() -> Any:
        with studio.computing:
            return function(*given, **named)

    return await answered(alone)


def whole(request: Request, name: str, usual: int | None = None) -> int:
    """A parameter of the address that is a whole number."""
    word = request.query_params.get(name)
    if word is None and usual is not None:
        return usual
    try:
        return int(word or "")
    except ValueError:
        raise UsageError(f"{name} is a whole number, got {(word or 'nothing')[:40]!r}") from None


def split_of(request: Request) -> str:
    """The split that the address names."""
    return request.query_params.get("split", "test")
