"""Measures of a run next to its baseline: taken again, or those that its training has left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepcanon.core import AnyBatch, DeepcanonError, UsageError
from deepcanon.data import Dataset, of
from deepcanon.data.frames import as_file
from deepcanon.runs.data import is_own, new_rows
from deepcanon.train.evaluation import some_of_train
from deepcanon.train.health import Examined, examine

if TYPE_CHECKING:
    from deepcanon.runs.run import Run


def examine_run(run: Run, data: Any = None, nodes: str | Path | None = None, likelihood: str | None = None) -> Examined:
    """Measure a run's model on its own data, or on others, next to the baseline of its own.

    These are a name, a file, a data set, a batch, or whatever makes a data set (:func:`~deepcanon.data.of`);
    ``nodes`` is the table of the nodes of another edge list, ``likelihood`` the name of one of the model's likelihoods.
    """
    model = run.model if likelihood is None else _with_likelihood(run.model, likelihood)
    with as_file(data) as examples:
        splits = _splits(run, examples, nodes)
    own = _own_data(run)
    found = examine(model, splits, own, run.settings, run.info["data"]["labels"])
    if likelihood is not None and not any("nll" in scores for scores in found.scores.values()):
        raise UsageError(
            f"{run.model.name()} has no likelihood of these data, which are not of real numbers; take images in their "
            "form NAME:dequantized"
        )
    if own is None:
        found.says.append("The data it was trained on cannot be read, so that there is no baseline to compare it with.")
    return found


def _splits(run: Run, data: Any, nodes: str | Path | None) -> dict[str, AnyBatch | None]:
    """What a run's model is measured on: the splits of its own data, or others as a test split."""
    if isinstance(data, Dataset):
        return {"train": data.train, "valid": data.valid, "test": data.test}
    if data is not None and not isinstance(data, str | Path):
        return {"train": None, "test": data if isinstance(data, AnyBatch) else of(data).train}
    name = None if data is None else str(data)
    if nodes is None and is_own(run.folder, name) and not run.changed(name):
        train = some_of_train(run.data.train, run.settings)
        return {"train": train, "valid": run.data.valid, "test": run.data.test}
    return {"train": None, "test": new_rows(run.folder, run.model, name, nodes=nodes)}


def _with_likelihood(model: Any, name: str) -> Any:
    """The model whose likelihood is that of this name; a model that has no likelihood says so."""
    if not hasattr(model, "with_likelihood"):
        raise UsageError(f"{model.name()} does not choose between likelihoods; leave out {name!r}")
    return model.with_likelihood(name)


def draw_pictures(run: Run) -> Path:
    """Draw the pictures of a run anew; the folder that they are in."""
    from deepcanon.pictures import draw_run  # matplotlib is slow to import

    run.folder.refuse_links()
    draw_run(run.model, run.data, run.folder.log(), run.folder.pictures, run.settings["seed"])
    return run.folder.pictures


def as_trained(run: Run) -> Examined:
    """The measures that the training has left."""
    scores, results = run.scores, run.info["results"]
    return Examined(scores, results.get("baseline"), results.get("by_class", {}), results.get("says", []))


def _own_data(run: Run) -> Dataset[Any] | None:
    """The data the run was trained on; without them it can be measured all the same."""
    try:
        return run.data
    except DeepcanonError:
        return None
