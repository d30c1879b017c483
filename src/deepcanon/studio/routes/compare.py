"""The addresses of the view Compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepcanon.core.errors import DeepcanonError
from deepcanon.studio.answering import View, answered
from deepcanon.studio.plain import bytes_of
from deepcanon.studio.requests import Answer
from deepcanon.studio.studio import Studio, id_of
from deepcanon.studio.unknown import UnknownId

compare = View("compare")


def routes(studio: Studio) -> list[Route]:
    """The comparisons of the folder, one of them, its samples and its report."""

    def folders() -> dict[str, Path]:
        return {id_of(folder, studio.root): folder for folder in compare.comparison_folders(studio.root)}

    def folder_of(request: Request) -> Path:
        try:
            return folders()[request.path_params["id"]]
        except KeyError:
            raise UnknownId("there is no such comparison here") from None

    def listed() -> dict[str, Any]:
        found = []
        for id, folder in folders().items():
            name = folder.relative_to(studio.root).as_posix()
            try:
                found.append({"id": id, "name": name, **compare.summary(folder)})
            except DeepcanonError as error:  # one that is damaged must not hide the others
                found.append({"id": id, "name": name, "status": "damaged", "error": str(error)})
        return {"comparisons": sorted(found, key=lambda each: str(each.get("created", "")), reverse=True)}

    async def all_of_them(request: Request) -> Response:
        return await answered(listed)

    async def one(request: Request) -> Response:
        folder = await run_in_threadpool(folder_of, request)

        def shown() -> dict[str, Any]:
            content = compare.compared(folder)
            for section in content["sections"]:
                for row in section["rows"]:
                    for seed in row["seeds"]:
                        place = None if seed["run"] is None else compare.place_of(folder, seed["run"])
                        seed["id"] = None if place is None else id_of(place, studio.root)
            content["training"] = [
                {"run": place, "id": id_of(folder / place, studio.root)} for place in content["training"]
            ]
            return {"name": folder.relative_to(studio.root).as_posix(), **content}

        return await answered(shown)

    async def picture(request: Request) -> Response:
        found = await run_in_threadpool(lambda: compare.samples(folder_of(request)))
        number = request.path_params["number"]
        if number >= len(found):
            raise UnknownId("there is no such picture here")
        return Response(await run_in_threadpool(bytes_of, found[number]), media_type="image/png")

    async def report(request: Request) -> Response:
        page = await run_in_threadpool(lambda: compare.report(folder_of(request)))
        return Answer({"address": studio.ticket(page)})

    return [
        Route("/api/comparisons", all_of_them),
        Route("/api/comparisons/{id}", one),
        Route("/api/comparisons/{id}/samples/{number:int}", picture),
        Route("/api/comparisons/{id}/report", report, methods=["POST"]),
    ]
