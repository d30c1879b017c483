"""Choices of the playground: the points there are, and the models of the catalogue that learn from them.

Everything is asked of the contract: the batches that a model learns from, the methods that it has, its support.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from deepcanon.blueprints import blueprint
from deepcanon.catalogue import entries
from deepcanon.core import SIZES, Blueprint, DeepcanonError, arguments_of
from deepcanon.core.annotations import describe_type, members_of, show_value
from deepcanon.core.docstrings import read_docstring
from deepcanon.core.settings import listed_settings
from deepcanon.core.spec import wrapped_by_default
from deepcanon.data.suits import suits
from deepcanon.methods._method import Method
from deepcanon.studio.play.asked_for import SETTINGS, columns_of, data_of, model_of, plane_sets
from deepcanon.studio.play.looks import Scene, looks_of
from deepcanon.studio.play.moving import movements_of
from deepcanon.studio.play.window import Window

SMALL = "8,8"
"""The widths of the hidden layers that a classifier begins with, so that every unit can be seen."""

GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("Semi-supervised methods", frozenset({"pseudo_labels"})),
    ("Classifiers", frozenset({"classes"})),
    ("Regression", frozenset({"mean"})),
    ("Games of a generator and a discriminator", frozenset({"discriminator"})),
    ("Flows", frozenset({"grid"})),
    ("Diffusion models", frozenset({"reverse"})),
    ("Densities", frozenset({"density"})),
    ("Scores and energies", frozenset({"score", "energy"})),
    ("Autoencoders", frozenset({"reconstruction"})),
    ("Samplers", frozenset({"samples"})),
)
"""Groups of models by what they show; a model stands in the first that it shows something of."""


def points_to_choose(files: Mapping[str, Path]) -> dict[str, Any]:
    """The embedded points, and the files that the user has named with their columns."""
    sets = [
        {"name": name, "classes": row["sizes"].get("classes", 0), "source": row["source"]}
        for name, row in plane_sets().items()
    ]
    return {"sets": sets, "files": [{"name": name, "columns": columns_of(path)} for name, path in files.items()]}


def models_for(wanted: Any, files: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The models that learn from these points and show something of them, by groups."""
    data = data_of(wanted, files)
    window, classes = Window.around(data.train.x), data.sizes.get("classes", 0)
    found: list[dict[str, Any]] = []
    for entry in entries():
        try:
            asked = blueprint(entry.name)
            if asked.missing() or not suits(asked, data):
                continue
            scene = Scene(asked.build(data.model_sizes, data.name), data.train, classes, window)
        except DeepcanonError:  # it cannot be built for points in the plane
            continue
        shows = [*looks_of(scene), *movements_of(scene)]
        group = next((name for name, kinds in GROUPS if kinds & {*shows}), None)
        if shows and group is not None:
            words = {"title": entry.title, "summary": entry.summary, "group": group}
            found.append({"name": entry.name, **words, "first": entry.name == Method.default_model})
    order = [name for name, _ in GROUPS]
    return sorted(found, key=lambda each: (order.index(each["group"]), each["name"]))


def form_of(name: Any, data: Any, files: Mapping[str, Path]) -> dict[str, Any]:
    """The arguments of a model as a form, those of the model that it wraps too, and the settings of its recipe."""
    asked = model_of(name, {})
    points = data_of(data, files)
    built = asked.build(points.model_sizes, points.name)
    small = points.sizes.get("classes", 0) > 0 and callable(getattr(built, "predict", None))
    known = listed_settings()
    return {
        "arguments": _fields(asked, "", small),
        "settings": [
            {
                "name": setting,
                "kind": _kind(known[setting][0]),
                "default": show_value(getattr(built.recipe, setting, known[setting][1].default)),
                "choices": [],
                "meaning": known[setting][1].help,
            }
            for setting in SETTINGS
        ],
    }


def _fields(asked: Blueprint, prefix: str, small: bool) -> list[dict[str, Any]]:
    text = read_docstring(asked.cls)
    wrapped = wrapped_by_default(asked.cls, ())
    fields: list[dict[str, Any]] = []
    for name, parameter in arguments_of(asked.cls).items():
        if name in SIZES:
            continue
        inner = asked.arguments.get(name)
        empty = parameter.default is parameter.empty
        default = wrapped.get(name) or ("" if empty else show_value(parameter.default))
        fields.append(
            {
                "name": f"{prefix}{name}",
                "kind": _kind(parameter.annotation),
                "default": default,
                "choices": _choices(parameter.annotation),
                "meaning": text.arguments.get(name, ""),
                "takes": describe_type(parameter.annotation),
                "start": SMALL if small and name == "hidden" and isinstance(parameter.default, tuple) else "",
            }
        )
        if isinstance(inner, Blueprint):
            fields += _fields(inner, f"{prefix}{name}.", small)
    return fields


def _choices(annotation: Any) -> list[str]:
    """The values of a Literal, or of true and false, in words; none where any value is taken."""
    members = members_of(annotation)
    found = [show_value(each) for member in members if get_origin(member) is Literal for each in get_args(member)]
    if bool in members:
        found += ["true", "false"]
    return found + (["none"] if found and type(None) in members else [])


def _kind(annotation: Any) -> str:
    members = members_of(annotation)
    if _choices(annotation):
        return "choice"
    return "number" if members and {*members} <= {int, float} else "text"
