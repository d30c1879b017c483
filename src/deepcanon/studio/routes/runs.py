"""The addresses of the view Runs."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deepcanon.studio.studio import Studio


def routes(studio: Studio) -> list[Route]:
    """The list of runs."""

    async def listed(request: Request) -> Response:
        found = await run_in_threadpool(studio.runs)
        return JSONResponse(
            {"runs": [{"id": id, "name": str(path.relative_to(studio.root))} for id, path in found.items()]}
        )

    return [Route("/api/runs", listed)]
