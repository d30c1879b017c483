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
            "--as", help="Which laws: contract, classifier, latent ...; by default, all that its methods call for."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a module of yours against the laws of its kind; the exit code is 1 if one of them fails.

    The class brings a module and examples by example(), or it is built without arguments.
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
