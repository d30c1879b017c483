"""The command ``nearest``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deepcanon.cli._parse import Folder, Json, Own
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError
from deepcanon.core.plural import counted
from deepcanon.core.settings import LARGEST

SHOWN = 10
"""Of more examples, the neighbors of the first ones are printed, and those of all with --json."""


def nearest(
    run: Folder,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="One word or several, of word vectors.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=LARGEST, help="How many neighbors of each.")] = 10,
    analogy: Annotated[
        bool, typer.Option("--analogy", help="Of three words: what is to the third as the second is to the first.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="Examples whose nearest training examples are shown; by default, the test split.", metavar="D"
        ),
    ] = None,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate", help="Search examples in a graph of neighbors: quicker among very many, not exact."
        ),
    ] = False,
    own: Own = None,
    json: Json = False,
) -> None:
    """Show the words nearest to given words, or the training examples nearest to given examples."""
    if words and data is not None:
        raise UsageError("words have neighbors among words, data among examples: give either words or --data")
    if analogy and len(words or []) != 3:
        raise UsageError(f"an analogy is one of three words, man king woman for instance (got {len(words or [])})")
    if words and approximate:
        raise UsageError("words are searched exactly: --approximate is for examples")
    from deepcanon.runs.neighbors import word_vectors
    from deepcanon.runs.run import Run

    opened, out = Run(run, own), Output(json)
    found = {"run": run, "model": opened.model.name()}
    if not words:
        out.result({**found, "nearest": _examples(opened, data, n, approximate, out)})
        return
    if analogy:
        first, second, third = words
        asked = {" ".join(words): word_vectors(opened).analogy(first, second, third, n)}
    else:
        asked = {word: opened.nearest(word, n) for word in words}
    for word, near in asked.items():
        title = "{1} is to {0} as to {2}".format(*words) if analogy else f"nearest to {word}"
        out.table([title, "cosine"], near, numbers=["cosine"])
    out.result({**found, "nearest": {word: dict(near) for word, near in asked.items()}})


def _examples(run: Any, data: str | None, n: int, approximate: bool, out: Output) -> list[dict[str, Any]]:
    near = run.nearest_examples(data, n, approximate=approximate)
    rows = list(zip(near.numbers.tolist(), near.distances.tolist(), strict=True))
    for number, (numbers, distances) in enumerate(rows[:SHOWN]):
        classes = [[] if near.labels is None else [near.labels[i]] for i in numbers]
        columns = [f"nearest to {number}", *([] if near.labels is None else ["class"]), "distance"]
        table = [[str(i), *each, d] for i, each, d in zip(numbers, classes, distances, strict=True)]
        out.table(columns, table, numbers=["distance"])
    if len(rows) > SHOWN:
        out.say(f"These are the first {SHOWN} of {counted(len(rows), 'example')}; --json has all.")
    return [
        {"examples": numbers, "distances": distances}
        | ({} if near.labels is None else {"classes": [near.labels[i] for i in numbers]})
        for numbers, distances in rows
    ]
