"""Samples of a run's model as a picture: images, videos with their frames in a row each, or points of a plane."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Graph, UsageError, given_batch, is_conditional
from deepcanon.core.errors import shortened
from deepcanon.data import Dataset
from deepcanon.data.text.special import WithSpecialTokens
from deepcanon.data.text.words import UNKNOWN
from deepcanon.data.transforms.forms import PICTURED, black_and_white
from deepcanon.runs.text import targets, tokenizer

MOST_IN_A_PICTURE = 4096
"""Images beyond these are too small to be recognized, and a picture of them may fill the memory."""


MOST_GRAPHS = 60
"""Of graphs, each of which is laid out in a panel of its own."""


def given_by_name(model: Any, given: str | int, guidance: float, info: Mapping[str, Any]) -> Any:
    """The model conditioned on a class by its name, or on a caption, of the data that ``info`` describes."""
    kind = model.conditioned_on if is_conditional(model) else None
    if kind not in ("classes", "a caption"):
        raise UsageError(f"{model.name()} is not conditioned on classes, so leave out --given; guided_ddpm is")
    if guidance != 0 and "guidance" not in model.given_options:
        raise UsageError(f"{model.name()} has no guidance; leave it out, or take guided_ddpm")
    if kind == "a caption":
        return model.given(_caption(str(given), info))
    names = info["labels"] or [str(c) for c in range(info["sizes"]["classes"])]
    if str(given) not in names:
        raise UsageError(f"there is no class {str(given)!r}; there are {', '.join(names)}")
    return model.given(names.index(str(given)), **({"guidance": guidance} if guidance != 0 else {}))


def _caption(given: str, info: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """A caption in the tokens of the run's data, and its length; words that the data do not have are refused."""
    by = tokenizer(targets(info))
    if not isinstance(by, WithSpecialTokens):
        raise UsageError("the captions of this run have no begin and end tokens, so none can be read")
    codes = by.row(given)
    if UNKNOWN in (by.vocabulary[code] for code in codes) or len(codes) < 3:  # between begin and end
        raise UsageError(f"the model knows only captions of the words of its data ({_words(info)}); got {given!r}")
    return torch.tensor([codes]), torch.tensor([len(codes)])


def _words(info: Mapping[str, Any]) -> str:
    return shortened(" ".join(word for word in info["target_vocabulary"] if word.isalnum()), 200)


def check_drawable(n: int, info: Mapping[str, Any]) -> None:
    """Refuse so many samples of the data of a run if they are more than a picture shows."""
    most = MOST_IN_A_PICTURE // (info["shape"][0] if info["kind"] == "videos" else 1)
    most = MOST_GRAPHS if info["kind"] == "graphs" else most
    if n > most:
        raise UsageError(f"a picture shows at most {most:,} samples (got -n {n:,}); write more to a .csv file")


def of_class(
    model: Any,
    info: Mapping[str, Any],
    data: Callable[[], Dataset[Any]],
    n: int,
    given: str | int | None,
    guidance: float,
) -> Any:
    """The model of a run, conditioned on the class or the caption that is given, or on what held-out data have."""
    if given is None:
        if guidance != 0:
            raise UsageError("guidance leads towards a class; name it by --given CLASS")
        if is_conditional(model) and not model.context_optional:
            return given_batch(model, _some_held_out(data(), n))
        return model
    return given_by_name(model, given, guidance, info)


def _some_held_out(data: Dataset[Any], n: int) -> AnyBatch:
    """So many examples that were not learned from, gone through again and again where there are fewer."""
    split: AnyBatch = next(part for part in (data.test, data.valid, data.train) if part is not None)
    return split.select(torch.arange(n, device=split.device) % len(split))


def way_of_sampling(model: Any, sampler: str | None, steps: int | None) -> dict[str, Any]:
    """The keywords for ``sample`` by which a model is drawn from in one of several ways, as far as they are given."""
    given = {name: value for name, value in (("sampler", sampler), ("steps", steps)) if value is not None}
    taken = inspect.signature(model.sample).parameters
    if missing := [name for name in given if name not in taken]:
        raise UsageError(f"{model.name()} is drawn from in one way; leave out {' and '.join(missing)}")
    return given


def edge_columns(graphs: Graph) -> dict[str, list[Any]]:
    """The table of the edges of sampled graphs, each listed once, by the number of its graph and of its nodes.

    A node without edges is a row without a target, so that no node is lost.
    """
    owner, (source, target) = graphs.membership(), graphs.edge_index
    once = source < target
    bare = torch.ones(graphs.nodes, dtype=torch.bool).index_fill(0, source, False).nonzero().squeeze(1)
    first = torch.cat([source[once], bare])
    order = torch.argsort(owner[first], stable=True).tolist()
    sizes = torch.tensor(graphs.parts)
    starts = (sizes.cumsum(0) - sizes)[owner]
    ends = [*(target[once] - starts[target[once]]).tolist(), *[None] * len(bare)]
    columns = {"graph": owner[first].tolist(), "source": (first - starts[first]).tolist(), "target": ends}
    return {name: [values[row] for row in order] for name, values in columns.items()}


def draw_graphs(graphs: Graph, path: Path, title: str) -> None:
    """Write sampled graphs as a picture."""
    from deepcanon.pictures.graph_grid import graph_sets  # matplotlib is slow to import
    from deepcanon.pictures.style import save

    save(graph_sets({"sample": graphs}, title), path)


def draw_samples(drawn: Tensor, path: Path, title: str, info: Mapping[str, Any]) -> None:
    """Write samples, (n, features), of data that ``info`` describes as a picture."""
    from deepcanon.pictures import image_grid, save, scatter  # matplotlib is slow to import

    if info["kind"] in (*PICTURED, "captions"):
        columns, shape = math.ceil(math.sqrt(len(drawn))), info["shape"]
        if info["kind"] == "videos":
            columns, *shape = shape
            drawn = drawn.reshape(len(drawn) * columns, -1)
        save(image_grid(drawn, shape, columns, limits=black_and_white(info["preprocessing"]), title=title), path)
    elif drawn.shape[1] == 2:
        save(scatter({"samples": drawn}, title), path)
    else:
        raise UsageError(f"samples of {drawn.shape[1]} values are not a picture; write them to a .csv file")
