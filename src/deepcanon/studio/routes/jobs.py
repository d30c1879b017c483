"""The addresses of jobs: what can be started, starting and stopping it."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepcanon.core.errors import UsageError
from deepcanon.studio.jobs import stop_process
from deepcanon.studio.requests import Answer, body_of
from deepcanon.studio.studio import Studio
from deepcanon.studio.views.runs import held, holder
from deepcanon.studio.views.training import catalogue, compare_words, model_form, train_words


def routes(studio: Studio) -> list[Route]:
    """The routes of jobs, and of stopping and resuming a run."""

    async def offered(request: Request) -> Response:
        return Answer(await run_in_threadpool(catalogue, studio))

    async def form(request: Request) -> Response:
        return Answer(await run_in_threadpool(_alone, studio, model_form, request.path_params["name"]))

    async def listed(request: Request) -> Response:
        return Answer({"jobs": studio.jobs.shown()})

    async def started(request: Request) -> Response:
        asked = await body_of(request)
        words = {"train": train_words, "compare": compare_words}.get(str(asked.get("what")))
        if words is None:
            raise UsageError("a job is to train or to compare")
        found, folder = await run_in_threadpool(_alone, studio, words, studio, asked)
        return Answer(studio.jobs.add(found[0], folder.name, found, folder))

    async def ended(request: Request) -> Response:
        now = (await body_of(request)).get("now") is True
        return Answer(studio.jobs.stop(request.path_params["id"], now=now))

    async def stopped(request: Request) -> Response:
        folder = studio.run(request.path_params["id"])
        stop_process(holder(folder, held()), now=(await body_of(request)).get("now") is True)
        return Answer({})

    async def resumed(request: Request) -> Response:
        folder = studio.run(request.path_params["id"])
        await body_of(request)
        if holder(folder, held()) is not None:
            raise UsageError("it is training already")
        return Answer(studio.jobs.add("resume", folder.name, ["resume", str(folder), "--json"], folder))

    return [
        Route("/api/catalogue", offered),
        Route("/api/catalogue/{name}", form),
        Route("/api/jobs", listed),
        Route("/api/jobs", started, methods=["POST"]),
        Route("/api/jobs/{id}/stop", ended, methods=["POST"]),
        Route("/api/runs/{id}/stop", stopped, methods=["POST"]),
        Route("/api/runs/{id}/resume", resumed, methods=["POST"]),
    ]


def _alone(studio: Studio, function: Any, *arguments: Any) -> Any:
    """Call what imports or uses torch, one at a time."""
    with studio.computing:
        return function(*arguments)
