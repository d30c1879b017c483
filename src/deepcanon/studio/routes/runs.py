"""The addresses of the runs: their table, their curves, one run, its pictures and notes, and what changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from deepcanon.studio.live import POLL, Live
from deepcanon.studio.plain import bytes_of
from deepcanon.studio.requests import Answer, body_of, number_of
from deepcanon.studio.studio import Studio
from deepcanon.studio.views.curves import curves
from deepcanon.studio.views.run import picture, run_page
from deepcanon.studio.views.runs import held, write_notes

ALIVE = 10.0
"""Seconds after which a stream without news says that it is there."""


def routes(studio: Studio) -> list[Route]:
    """The routes of the views Runs and Run."""
    live = studio.live

    async def listed(request: Request) -> Response:
        version, rows = await run_in_threadpool(live.rows)
        return Answer({"epoch": studio.epoch, "version": version, "runs": rows})

    async def drawn(request: Request) -> Response:
        asked = request.query_params
        groups = [part.split(".") for part in asked["groups"].split(",")] if "groups" in asked else None
        ids = [id for group in groups for id in group] if groups else asked.get("runs", "").split(",")
        folders = {id: studio.run(id) for id in ids if id}
        content = await run_in_threadpool(
            curves, folders, studio.caches, asked.get("name", "loss"), against=asked.get("against", "step"),
            low=number_of(asked, "from", None), high=number_of(asked, "to", None),
            width=int(number_of(asked, "width", 600.0)),
            groups=groups,
        )  # fmt: skip
        return Response(content, media_type="application/octet-stream")

    async def one(request: Request) -> Response:
        folder = studio.run(request.path_params["id"])
        return Answer(await run_in_threadpool(lambda: run_page(folder, studio.root, held())))

    async def shown(request: Request) -> Response:
        path = picture(studio.run(request.path_params["id"]), request.path_params["number"])
        return Response(await run_in_threadpool(bytes_of, path), media_type=_KINDS[path.suffix])

    async def noted(request: Request) -> Response:
        folder, said = studio.run(request.path_params["id"]), await body_of(request)
        return Answer(await run_in_threadpool(write_notes, folder, said.get("tags"), said.get("note")))

    async def changes(request: Request) -> Response:
        return StreamingResponse(_events(studio, live), media_type="text/event-stream")

    return [
        Route("/api/runs", listed),
        Route("/api/curves", drawn),
        Route("/api/live", changes),
        Route("/api/runs/{id}", one),
        Route("/api/runs/{id}/pictures/{number:int}", shown),
        Route("/api/runs/{id}/notes", noted, methods=["POST"]),
    ]


_KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


async def _events(studio: Studio, live: Live) -> AsyncIterator[str]:
    """Server-sent events: what has changed since the last one; a comment where nothing has for long."""
    version, _ = await run_in_threadpool(live.rows)
    jobs = -1
    yield f"event: hello\ndata: {json.dumps({'epoch': studio.epoch, 'version': version})}\n\n"
    quiet = 0.0
    while not studio.ending:
        await asyncio.sleep(POLL)
        number, news = await run_in_threadpool(live.since, version)
        quiet += POLL
        if number > version:
            version, quiet = number, 0.0
            yield f"id: {studio.epoch}-{version}\nevent: runs\ndata: {json.dumps(news)}\n\n"
        if studio.jobs.version != jobs:
            jobs, quiet = studio.jobs.version, 0.0
            yield f"event: jobs\ndata: {json.dumps({'jobs': studio.jobs.shown()})}\n\n"
        if quiet > ALIVE:
            quiet = 0.0
            yield ": alive\n\n"
