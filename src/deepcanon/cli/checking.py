"""The command that holds anyone's code to the laws."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from deepcanon.cli.output import Json, Output


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="A class, or a function that makes a module.")],
    kind: Annotated[str, typer.Option("--as", help="Which laws: contract, classifier, latent ...")] = "contract",
    json: Json = False,
) -> None:
    """Check a module of yours against the laws of its kind; the exit code is 1 if one of them fails.

    The class brings a module and examples by example(), or it is built without arguments.
    """
    from deepcanon.laws import check as check_laws
    from deepcanon.laws import load_target

    module, batch = load_target(target)
    found = sorted(check_laws(module if batch is None else (module, batch), kind), key=lambda outcome: outcome.holds)
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
    out.say(f"{target} as {kind}: {len(found) - failed} of {len(found)} laws hold.")
    out.answer({"target": target, "kind": kind, "failed": failed, "outcomes": [asdict(outcome) for outcome in found]})
    if failed:
        raise typer.Exit(1)
