"""Signatures of a model's methods, held before a training to the calls that are made after it."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from deepcanon.core import roles
from deepcanon.core.errors import UsageError
from deepcanon.core.model import Model

UNUSED = {"predict": {"generator"}, "log_prob": {"samples", "generator"}}
"""Keywords of a role that a model may leave out: only a likelihood that is drawn is asked for more draws."""

OWN = ("loss", "weight_of", "turns", "prepare", "metrics", "evaluated")
"""The methods of every model."""

_METHODS = tuple(
    (role, name, method)
    for role in vars(roles).values()
    if isinstance(role, type) and getattr(role, "_is_protocol", False)
    for name, method in vars(role).items()
    if inspect.isfunction(method) and not name.startswith("_")
)
"""Every role with the name and the declaration of each of its methods."""


def check_signatures(model: Model[Any], inputs: int = 1) -> None:
    """Refuse a model one of whose methods cannot be called as its role says; ``inputs`` is how many it predicts from.

    >>> from deepcanon.core.toy import Toy
    >>> check_signatures(Toy(features=2))
    """
    for name, declared in {**{name: getattr(Model, name) for name in OWN}, **_roles_of(model)}.items():
        method = getattr(model, name, None)
        if method is None:
            continue
        wanted = _bare(declared)
        if isinstance(method, nn.Module) or not callable(method):
            kind = type(method).__name__
            raise UsageError(
                f"{model.name()}.{name} is a {kind} where a model has the method {name}{wanted}; give it another name"
            )
        _check(model, name, inspect.signature(method), wanted, inputs)


def _check(model: Model[Any], name: str, found: inspect.Signature, wanted: inspect.Signature, inputs: int) -> None:
    drawn = getattr(model, "likelihood_kind", "exact") in ("lower bound", "estimate")
    unused = {"context"} | (set() if drawn and name == "log_prob" else UNUSED.get(name, set()))
    positional: list[str] = []
    keywords: dict[str, None] = {}
    for each in wanted.parameters.values():
        if each.kind is each.VAR_POSITIONAL:
            positional += [each.name] * inputs
        elif each.kind is each.KEYWORD_ONLY or each.default is not each.empty:
            keywords |= {} if each.name in unused else {each.name: None}
        else:
            positional.append(each.name)
    try:
        found.bind(*positional, **keywords)
    except TypeError as error:
        call = ", ".join([*positional, *(f"{keyword}=..." for keyword in keywords)])
        raise UsageError(
            f"{model.name()}.{name} cannot be called as {name}({call}): {error}; write it as {name}{wanted}"
        ) from None


def _roles_of(model: Model[Any]) -> dict[str, Any]:
    """The methods, by name, of all roles that a model is taken for."""
    return {name: each for role, name, each in _METHODS if name in roles.METHODS or isinstance(model, role)}


def _bare(method: Any) -> inspect.Signature:
    """The signature of a method without self and annotations."""
    _, *parameters = inspect.signature(method).parameters.values()
    return inspect.Signature([each.replace(annotation=each.empty) for each in parameters])
