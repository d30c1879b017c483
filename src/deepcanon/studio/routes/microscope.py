"""The addresses of the view Microscope."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepcanon.core import UsageError
from deepcanon.studio.answering import View, computed
from deepcanon.studio.requests import body_of
from deepcanon.studio.studio import Studio

microscope = View("microscope")


def routes(studio: Studio) -> list[Route]:
    """What can be looked at in a run, the numbers that can be edited, and the page of the graph."""

    async def subject(request: Request) -> Response:
        return await computed(studio, microscope.subject, studio.run(request.path_params["id"]))

    async def numbers(request: Request) -> Response:
        run, parameter = studio.run(request.path_params["id"]), request.query_params.get("parameter", "")
        return await computed(studio, microscope.numbers, run, parameter)

    async def magnify(request: Request) -> Response:
        run, asked = studio.run(request.path_params["id"]), await body_of(request)
        split, examples, edit = asked.get("split"), asked.get("examples"), asked.get("edit")
        if not isinstance(split, str) or not isinstance(examples, list) or not all(type(n) is int for n in examples):
            raise UsageError("the microscope needs a split and the numbers of its examples")
        if edit is not None and not isinstance(edit, dict):
            raise UsageError("an edit names a parameter, the index of a number in it, and its new value")

        def shown() -> dict[str, Any]:
            found = {} if edit is None else microscope.edited(run, split, examples, edit)
            return {**found, "address": studio.ticket(microscope.page(run, split, examples, edit=edit))}

        return await computed(studio, shown)

    return [
        Route("/api/runs/{id}/microscope", subject),
        Route("/api/runs/{id}/microscope", magnify, methods=["POST"]),
        Route("/api/runs/{id}/numbers", numbers),
    ]
