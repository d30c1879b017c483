"""The command ``check``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="A class, or a function that makes a module.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as", help="A kind of laws, one of those above; by default, all kinds that the module falls under."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a module of yours against the laws of its kind; the exit code is 1 if one of them fails.

    The class brings a module and examples by example(), or it is built
    without arguments. It may be a whole model, a part of one (a layer, a
    loss), or an optimizer. The kind is found by its methods, its type, its
    name, or its answers to invented inputs; docs/laws.md says what the laws of
    each kind hold.

    Kinds of models: contract, classifier, latent, autoencoder, discrete,
    energy, continuous, sampler, flow, score, diffusion, game, sequence,
    forecaster, translation, graph, graphs, method.

    Kinds of parts: attention, recurrent, transform, positions, dropout,
    normalization, convolution, activation, loss, initialization, optimizer.
    """
    from deepcanon.laws import check as check_laws
    from deepcanon.laws import kinds_of, load_target

    loaded = load_target(target)
    kinds = [kind] if kind is not None else kinds_of(loaded)
    found = sorted((each for one in kinds for each in check_laws(loaded, one)), key=lambda outcome: outcome.holds)
    failed = sum(not outcome.holds for outcome in found)
    out = Output(json)
    out.table(
        ["", "law", "measured", "bound", "what was seen"],
        [
            ("holds" if outcome.holds else "FAILS", outcome.law, outcome.measured, outcome.bound, outcome.detail)
            for outcome in found
        ],
        numbers=["measured", "bound"],
    )
    out.say(f"{target} as {' and '.join(kinds)}: {len(found) - failed} of {len(found)} laws hold.")
    out.result(
        {
            "target": target,
            "kind": kinds[0] if kind is not None else kinds,
            "failed": failed,
            "outcomes": [asdict(outcome) for outcome in found],
        }
    )
    if failed:
        raise typer.Exit(1)
