"""The command that takes a model out of the method that trained it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Folder, open_run, report


def unwrap(
    run: Folder,
    out: Annotated[Path, typer.Option(help="The folder for the run of the plain model.", metavar="DIR")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")] = False,
    json: Json = False,
) -> None:
    """Write the model that a method has trained as a run of its own; what LoRA has added is merged into its weights."""
    import deepcanon
    from deepcanon.cli.rows import own_data
    from deepcanon.core import UsageError
    from deepcanon.runs.folder import describe_run
    from deepcanon.train import Run, evaluate

    opened = open_run(run)
    model = deepcanon.load(run)
    if not hasattr(model, "unwrapped"):
        raise UsageError(f"{run} holds a {model.name()}, which wraps no other model")
    plain, data = model.unwrapped().eval(), own_data(opened)  # type: ignore[operator]
    Run.claim(out, overwrite=overwrite)
    parts = {"train": data.train, "valid": data.valid, "test": data.test}
    scores = {
        part: {} if rows is None else evaluate(plain, rows, seed=opened.settings.seed) for part, rows in parts.items()
    }
    new = Run(out, describe_run(plain, data, opened.settings, opened.info["environment"]["processes"]))
    out.mkdir(parents=True, exist_ok=True)
    new.begin()
    results = opened.info["results"]
    new.write_results(
        plain.state_dict(), f"unwrapped from {model.name()}", results["steps"], results["seconds"], scores
    )
    new.commit()
    voice = Output(json)
    voice.say(f"The {plain.name()} inside {run} is in {out}.")
    report(voice, out, scores)
