"""The application: the page's own files, the routes of every view, and errors as one sentence."""

from __future__ import annotations

import importlib
import pkgutil
import re
from importlib.metadata import version
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from deepcanon.core.errors import DeepcanonError, brief
from deepcanon.studio import routes
from deepcanon.studio.requests import Answer
from deepcanon.studio.security import Guard
from deepcanon.studio.studio import Studio
from deepcanon.studio.unknown import UnknownId

PAGE = Path(__file__).parent / "page"
NAVIGATION = ("runs", "compare", "doctor", "microscope", "playground", "explain")
"""The views that stand in the page's head, in this order, as far as their files are there."""

_TITLE = re.compile(r'^export const title = "(.+)";$', re.MULTILINE)


def application(studio: Studio, port: int) -> ASGIApp:
    """The studio as an ASGI application that answers to requests for this port."""
    modules = [
        importlib.import_module(f"{routes.__name__}.{each.name}") for each in pkgutil.iter_modules(routes.__path__)
    ]
    found = [route for module in modules for route in module.routes(studio)]
    own = [Route("/api/studio", _about(studio)), Route("/ticket/{name}", _ticket(studio))]
    app = Starlette(
        routes=[*own, *found, *_files()],
        exception_handlers={
            HTTPException: _http_error,
            DeepcanonError: _user_error,
            UnknownId: _unknown,
            Exception: _bug,
        },
    )
    app.router.redirect_slashes = False  # an address is one of ours to the letter, or nothing
    return Guard(app, token=studio.token, port=port, read_only=studio.read_only)


def _files() -> list[Route]:
    """A route for each file of the page, read once: nothing else of the disk can be asked for."""
    paths = {f"/{path.relative_to(PAGE).as_posix()}": path for path in sorted(PAGE.rglob("*")) if path.is_file()}
    return [Route("/" if name == "/index.html" else name, _file(path)) for name, path in paths.items()]


def _file(path: Path) -> Any:
    content, kind = path.read_bytes(), guess_type(path.name)[0]

    async def file(request: Request) -> Response:
        return Response(content, media_type=kind)

    return file


def _about(studio: Studio) -> Any:
    """What the page must know before it shows anything."""
    views = [
        {"name": name, "title": found[1]}
        for name in NAVIGATION
        if (path := PAGE / "views" / f"{name}.js").is_file() and (found := _TITLE.search(path.read_text("utf-8")))
    ]
    about = {
        "folder": studio.root.name,
        "version": version("deepcanon"),
        "views": views,
        "read_only": studio.read_only,
        "epoch": studio.epoch,
    }

    async def answer(request: Request) -> Response:
        return Answer(about)

    return answer


def _ticket(studio: Studio) -> Any:
    async def show(request: Request) -> Response:
        return Response(studio.redeem(request.path_params["name"]), media_type="text/html")

    return show


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Answer({"error": "there is nothing here" if error.status_code == 404 else error.detail}, error.status_code)


async def _user_error(request: Request, error: Exception) -> Response:
    return Answer({"error": brief(str(error))}, 400)


async def _unknown(request: Request, error: Exception) -> Response:
    return Answer({"error": str(error)}, 404)


async def _bug(request: Request, error: Exception) -> Response:
    """What nobody foresaw: the page gets a sentence; the server writes the traceback to the terminal."""
    return Answer({"error": "something went wrong in the studio; its terminal says what"}, 500)
