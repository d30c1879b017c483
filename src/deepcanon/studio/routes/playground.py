"""The addresses of the view Playground."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from deepcanon.studio.play.sessions import Session, Sessions
from deepcanon.studio.requests import Answer, body_of
from deepcanon.studio.studio import Studio


def routes(studio: Studio) -> list[Route]:
    """What can be chosen, and sessions: begun, told what to do, watched."""
    sessions = Sessions(studio.files)
    studio.at_end.append(sessions.close)

    async def choices(request: Request) -> Response:
        found = await run_in_threadpool(sessions.choices, await body_of(request))
        return Answer(found)

    async def begin(request: Request) -> Response:
        session = await run_in_threadpool(sessions.begin, await body_of(request))
        return Answer({"id": session.id, "scene": session.scene})

    async def tell(request: Request) -> Response:
        id, command = request.path_params["id"], await body_of(request)
        if command.get("do") == "end":
            await run_in_threadpool(sessions.end, id)
            return Answer({})
        return Answer(await run_in_threadpool(sessions.find(id).ask, command))

    async def frames(request: Request) -> Response:
        return StreamingResponse(_events(sessions.find(request.path_params["id"])), media_type="text/event-stream")

    return [
        Route("/api/play/choices", choices, methods=["POST"]),
        Route("/api/play", begin, methods=["POST"]),
        Route("/api/play/{id}", tell, methods=["POST"]),
        Route("/api/play/{id}/frames", frames),
    ]


async def _events(session: Session) -> AsyncIterator[str]:
    """Frames as server-sent events; a comment says that the stream is alive."""
    async for frame in session.frames():
        yield f"event: {frame['kind']}\ndata: {json.dumps(frame)}\n\n" if frame else ": alive\n\n"
