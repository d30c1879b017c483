"""The cost of mistakes: decisions that make it least, and its mean over the test examples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import UsageError
from deepcanon.core.hints import did_you_mean
from deepcanon.data import Dataset
from deepcanon.train.scores import Predicted

Cost = dict[str, float]
"""Of classes, what it costs to miss an example of each; of numbers, a unit ``under`` and a unit ``over`` the truth."""

SIDES = ("under", "over")


class CostMeasures(TypedDict):
    """The costs that were given, and the mean cost of the decisions on the test examples."""

    of: Cost
    mean: float


def read_cost(given: str | Mapping[str, float]) -> Cost:
    """The costs of mistakes as they are written.

    >>> read_cost("ill=10,well=1")
    {'ill': 10.0, 'well': 1.0}
    """
    pairs = [word.rpartition("=")[::2] for word in given.split(",")] if isinstance(given, str) else list(given.items())
    found: Cost = {}
    for name, value in pairs:
        cost = _number(value)
        if not str(name).strip() or cost is None:
            raise UsageError(f"a cost is a class and a number from 0 on, as in ill=10,well=1; got {given!r}")
        if str(name).strip() in found:
            raise UsageError(f"the cost of {str(name).strip()!r} is given twice")
        found[str(name).strip()] = cost
    if not any(found.values()):
        raise UsageError("some mistake must cost more than 0")
    return found


def whole_cost(cost: Cost, data: Dataset[Any]) -> Cost:
    """The cost of every mistake on these data: 1 where none is given."""
    labels = data.split("test").labels
    if labels is None:
        raise UsageError(
            f"{data.name} has no labels to be mistaken about: name a column by --target, or leave out cost"
        )
    if labels.is_floating_point() and data.sizes.get("targets") != 1:
        raise UsageError(f"costs are those of one number; {data.name} has {data.sizes.get('targets')} targets")
    known = SIDES if labels.is_floating_point() else data.labels or tuple(map(str, range(data.sizes["classes"])))
    for name in cost:
        if name not in known:
            what = "a side of a number" if labels.is_floating_point() else "a class"
            raise UsageError(f"{name!r} is not {what} of {data.name}, so it has no cost; {did_you_mean(name, known)}")
    return {name: cost.get(name, 1.0) for name in known}


def cost_of_examples(cost: Cost, predicted: Predicted, valid: Predicted | None, unit: float = 1.0) -> Tensor:
    r"""The cost of the decision about each test example, (N,).

    The class that is decided on has the least expected cost: :math:`\arg\max_k c_k\, p_k`, where missing an example of
    class k costs :math:`c_k`. Of a number, where a unit below the truth costs :math:`a` and one above it :math:`b`, the
    decision of least expected cost is the quantile of level :math:`a / (a + b)`: the prediction plus that quantile of
    the errors on validation data, where there are any. Costs are in units of the target.

    >>> sick = Predicted(torch.tensor([[0.2, 0.8], [0.05, 0.95]]), torch.tensor([0, 0]))
    >>> cost_of_examples({"ill": 10.0, "well": 1.0}, sick, None)
    tensor([ 0., 10.], dtype=torch.float64)
    """
    if predicted.is_classes:
        of_class = torch.tensor(list(cost.values()), dtype=torch.float64)
        decided = (predicted.mean.double() * of_class).argmax(1)
        return torch.where(decided == predicted.true, 0.0, of_class[predicted.true])
    under, over = cost["under"], cost["over"]
    shift = 0.0
    if valid is not None and under + over > 0:
        shift = float((valid.true - valid.mean).double().quantile(under / (under + over)))
    error = (predicted.true - predicted.mean - shift).double().squeeze(1) * unit
    return torch.where(error > 0, under * error, -over * error)


def _number(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
