"""The addresses of the view Doctor."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepcanon.core.errors import UsageError
from deepcanon.studio.answering import View, computed
from deepcanon.studio.requests import Answer, body_of
from deepcanon.studio.studio import Studio
from deepcanon.studio.views.training import train_words

LOOKS = "looks"

doctor = View("doctor")


def routes(studio: Studio) -> list[Route]:
    """The verdicts on a run, a new examination, and the training that follows an advice."""

    async def verdicts(request: Request) -> Response:
        run = studio.run(request.path_params["id"])
        return await computed(studio, lambda: {"examined": doctor.examined(run)})

    async def examine(request: Request) -> Response:
        run = studio.run(request.path_params["id"])
        words = ["doctor", str(run), f"--out={run / LOOKS}", "--overwrite", "--all", "--json"]
        return Answer(studio.jobs.add("doctor", run.name, words, run, fine=(0, 1)))

    async def apply(request: Request) -> Response:
        run, asked = studio.run(request.path_params["id"]), await body_of(request)
        verdict = asked.get("verdict")
        if type(verdict) is not int:
            raise UsageError("which verdict? It is named by its number")

        def words() -> Any:
            with studio.computing:
                training = doctor.training_after(run, verdict)
                known = {str(path): name for name, path in studio.files.items()}
                return train_words(studio, {**training, "data": known.get(training["data"], training["data"])})

        found, folder = await run_in_threadpool(words)
        return Answer(studio.jobs.add("train", folder.name, found, folder))

    return [
        Route("/api/runs/{id}/doctor", verdicts),
        Route("/api/runs/{id}/doctor", examine, methods=["POST"]),
        Route("/api/runs/{id}/doctor/apply", apply, methods=["POST"]),
    ]
