"""The command ``check``."""

from __future__ import annotations

from typing import Annotated

import typer

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output
from deepcanon.core.plural import counted


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="A class, or a function that makes a module.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as", help="A kind of laws, one of those above; by default, all kinds that the module falls under."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="The time that the check is given.", metavar="SECONDS")] = 600,
    json: Json = False,
) -> None:
    """Check a module of yours against the laws of its kind; the exit code is 1 if one of them fails.

    Your file runs in a process of its own, so that a check is answered however
    the file ends.

    The class brings a module and examples by example(), or it is built
    without arguments. It may be a whole model, a part of one (a layer, a
    loss), or an optimizer. The kind is found by its methods, its type, its
    name, or its answers to invented inputs; docs/laws.md says what the laws of
    each kind hold.

    Kinds of models: contract, classifier, latent, autoencoder, discrete, mixed,
    energy, continuous, sampler, flow, score, diffusion, game, sequence,
    forecaster, videos, translation, decoding, graph, graphs, graph_density, method.

    Kinds of parts: attention, recurrent, transform, positions, dropout,
    normalization, convolution, activation, output_layer, loss, initialization,
    optimizer.
    """
    from deepcanon.core.apart import call_apart

    answer = call_apart("deepcanon.laws.apart:outcomes", target, kind, runs=target, seconds=seconds)
    kinds, found = answer["kinds"], answer["outcomes"]
    failed = sum(not outcome["holds"] for outcome in found)
    out = Output(json)
    out.table(
        ["", "law", "measured", "bound", "what was seen"],
        [("holds" if each.pop("holds") else "FAILS", *each.values()) for each in map(dict, found)],
        numbers=["measured", "bound"],
    )
    out.say(f"{target} as {' and '.join(kinds)}: {len(found) - failed} of {counted(len(found), 'law')} hold.")
    out.result(
        {
            "target": target,
            "kind": kinds[0] if kind is not None else kinds,
            "failed": failed,
            "outcomes": found,
        }
    )
    if failed:
        raise typer.Exit(1)
