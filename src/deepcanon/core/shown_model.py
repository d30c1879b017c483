"""The display of a model in a notebook: what it can do, its arguments, and its layers."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from deepcanon.core.display import notebook, table
from deepcanon.core.roles import methods_of

if TYPE_CHECKING:
    from deepcanon.core.model import Model


def shown_model(model: Model[Any]) -> str:
    """A model as a notebook displays it, without a number of it being computed."""
    defaults = {name: each.default for name, each in inspect.signature(type(model)).parameters.items()}
    arguments = [
        [name, value, "" if defaults.get(name, inspect.Parameter.empty) is inspect.Parameter.empty else defaults[name]]
        for name, value in model.__dict__.get("_hparams", {}).items()
    ]
    about = [("methods", ", ".join(methods_of(model))), ("likelihood", getattr(model, "likelihood_kind", ""))]
    layers = [
        [
            name or type(model).__name__,
            type(layer).__name__,
            ", ".join(f"{part} {'x'.join(map(str, own.shape))}" for part, own in parts.items()),
            f"{sum(own.numel() for own in parts.values()):,}",
        ]
        for name, layer in model.named_modules()
        if (parts := dict(layer.named_parameters(recurse=False)))
    ]
    return notebook(
        repr(model),
        table([], [row for row in about if row[1]]),
        table(["argument", "value", "default"], arguments) if arguments else "",
        table(["layer", "kind", "weights", "parameters"], layers) if layers else "",
    )
