"""The addresses of the view Explain and latent."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepcanon.core import UsageError
from deepcanon.studio.answering import View, computed, split_of, whole
from deepcanon.studio.requests import number_of
from deepcanon.studio.studio import Studio

explain, latent, looking = View("explain"), View("latent"), View("looking")


def routes(studio: Studio) -> list[Route]:
    """Panels, examples, maps, codes, tokens and frames of a run."""

    async def panels(request: Request) -> Response:
        return await computed(studio, explain.panels, studio.run(request.path_params["id"]))

    async def example(request: Request) -> Response:
        run, split, number = studio.run(request.path_params["id"]), split_of(request), whole(request, "number", 0)
        return await computed(studio, lambda: looking.look_into(run).example(split, number))

    async def maps(request: Request) -> Response:
        run, split, number = studio.run(request.path_params["id"]), split_of(request), whole(request, "number", 0)
        control, layer = request.query_params.get("control") == "1", request.query_params.get("layer")
        panel = request.path_params["panel"]
        if panel == "activations":
            return await computed(studio, explain.activations, run, split, number, control=control)
        if panel == "grad_cam":
            target = whole(request, "target") if "target" in request.query_params else None
            return await computed(studio, explain.class_maps, run, split, number, target=target, layer=layer)
        if panel == "receptive_field":
            return await computed(studio, explain.fields, run, split, number, layer=layer)
        if panel == "attention":
            return await computed(studio, explain.attention, run, split, number, control=control)
        raise UsageError(f"there is no panel {panel[:40]!r}")

    async def next_token(request: Request) -> Response:
        run, asked = studio.run(request.path_params["id"]), request.query_params
        heat = number_of(asked, "temperature", 1.0)
        return await computed(studio, explain.next_token, run, asked.get("prompt", ""), temperature=heat)

    async def codes(request: Request) -> Response:
        return await computed(studio, latent.latent_map, studio.run(request.path_params["id"]), split_of(request))

    async def decode(request: Request) -> Response:
        run, point = studio.run(request.path_params["id"]), [number_of(request.query_params, a, 0.0) for a in "xy"]
        return await computed(studio, latent.decoded, run, split_of(request), [point], whole(request, "number", 0))

    async def interpolate(request: Request) -> Response:
        run, ends = studio.run(request.path_params["id"]), [whole(request, "first"), whole(request, "second")]
        return await computed(studio, latent.interpolated, run, split_of(request), *ends, whole(request, "steps", 9))

    async def frame(request: Request) -> Response:
        run, name = studio.run(request.path_params["id"]), request.query_params.get("name", "")
        content = await run_in_threadpool(latent.frame, run, name, whole(request, "step"))
        return Response(content, media_type="image/png")

    return [
        Route("/api/runs/{id}/explain", panels),
        Route("/api/runs/{id}/example", example),
        Route("/api/runs/{id}/explain/{panel}", maps),
        Route("/api/runs/{id}/next-token", next_token),
        Route("/api/runs/{id}/codes", codes),
        Route("/api/runs/{id}/decode", decode),
        Route("/api/runs/{id}/interpolate", interpolate),
        Route("/api/runs/{id}/film", frame),
    ]
