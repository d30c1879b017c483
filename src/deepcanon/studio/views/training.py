"""Trainings and comparisons that a page may ask for: the same options as the command line, and the same sentences."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from deepcanon.catalogue import entries, is_name
from deepcanon.cli._early import check_model, data_names
from deepcanon.core.errors import UsageError
from deepcanon.core.files import free
from deepcanon.core.hints import did_you_mean
from deepcanon.core.reading import Reading
from deepcanon.core.settings import RECIPE, Settings, listed_options
from deepcanon.studio.jobs import MOST_VALUE, as_words, checked_options
from deepcanon.studio.studio import Studio

FILES_OF_READING = ("nodes",)
"""Reading options whose value is a file: one of those that were named when the studio was started."""
COMPARE_OPTIONS = {"seeds", "budget", "epochs", "baselines", "cost", "learning_curve"}
TRAINING = ("model", "data", "folder", "arguments", "settings", "reading", "doctor", "film")
COMPARISON = ("models", "data", "folder", "options", "reading")
"""What a page can say of a training and of a comparison."""
MOST_MODELS = 50
_FORMS = re.compile(r"(:[\w=,.+-]+)*")
"""Forms of data after their name, which name no file."""
RUN = "run:"
"""What stands before the id of a run that is given in place of the name of a model."""


def catalogue(studio: Studio) -> dict[str, Any]:
    """All that a form can choose from: models, data sets, the user's files, and the settings of a training."""
    return {
        "models": [{"name": each.name, "family": each.family, "title": each.title or each.name, "summary": each.summary}
                   for each in entries()],
        "data": [*studio.files, *data_names()],
        "files": list(studio.files),
        "settings": [_field(name, kind, setting) for name, (kind, setting) in listed_options(Settings).items()],
        "reading": [_field(name, kind, setting) for name, (kind, setting) in listed_options(Reading).items()],
    }  # fmt: skip


def model_form(name: str) -> dict[str, Any]:
    """The arguments of a model as fields of a form, with what is known to work for it."""
    name = _catalogue_name(name)
    from deepcanon.catalogue import find
    from deepcanon.cli.show import facts_of
    from deepcanon.core import SIZES, arguments_of
    from deepcanon.core.spec import is_model

    cls = find(name)
    facts = facts_of(cls)
    fields = []
    for (argument, parameter), fact in zip(arguments_of(cls).items(), facts["arguments"], strict=True):
        if argument in SIZES and fact["default"] == "from the data":
            continue
        inner = is_model(parameter.annotation)
        choices = [each.name for each in entries()] if inner else _choices(parameter.annotation, fact["takes"])
        flag = isinstance(parameter.default, bool)
        fields.append({
            "name": argument,
            "kind": "flag" if flag else "text" if inner or not choices else "choice",
            "default": parameter.default if flag else "" if fact["default"] == "required" else fact["default"],
            "choices": choices,
            "meaning": fact["meaning"] if flag or choices else f"{fact['meaning']} ({fact['takes']})",
            "required": fact["default"] == "required",
        })  # fmt: skip
    recipe = {name: value for name, value in facts["recipe"].items() if value is not None}
    return {"name": facts["model"], "title": facts["title"], "summary": facts["summary"], "arguments": fields,
            "recipe": recipe, "learns_from": facts["learns_from"]}  # fmt: skip


def _choices(annotation: Any, takes: str) -> list[str]:
    if get_origin(annotation) is Literal:
        return list(map(str, get_args(annotation)))
    return takes.removeprefix("one of ").split(", ") if takes.startswith("one of ") else []


def _field(name: str, kind: Any, setting: Any) -> dict[str, Any]:
    """The field of a setting; where a model's recipe decides, it has no default of its own."""
    flag = kind is bool
    default = None if setting.default is RECIPE or setting.default == () else setting.default
    choices = [str(each) for each in get_args(kind)] if get_origin(kind) is Literal else []
    plain = {int: "integer", int | None: "integer", float: "number", float | None: "number"}.get(kind, "text")
    return {"name": name, "kind": "flag" if flag else "choice" if choices else plain, "default": default,
            "choices": choices, "meaning": setting.help, "required": False}  # fmt: skip


def train_words(studio: Studio, asked: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The words of the command that trains what a page asks for, and the folder of the run."""
    _check_keys(asked, TRAINING)
    name = _catalogue_name(asked.get("model"))
    arguments = _arguments(studio, name, checked_options(asked.get("arguments", {})))
    settings = checked_options(asked.get("settings", {}))
    reading = checked_options(asked.get("reading", {}))
    for option, value in list(settings.items()):
        if option not in listed_options(Settings):
            raise UsageError(f"training has no setting {option!r}; {did_you_mean(option, listed_options(Settings))}")
        if isinstance(value, bool) and value is listed_options(Settings)[option][1].default:
            del settings[option]
    data = data_word(studio, asked.get("data"), reading)
    _check_values(name, arguments, settings)
    folder = free(studio.root / _folder_name(asked.get("folder") or name), studio.jobs.promised())
    words = ["train", name, *([f"--data={data}"] if data else []), f"--out={folder}", *as_words(reading)]
    watching = [f"--{name}" for name in ("doctor", "film") if asked.get(name) is True]
    return [*words, *as_words(settings), *as_words(arguments), *watching, "--json"], folder


def compare_words(studio: Studio, asked: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The words of the command that compares what a page asks for, and the folder of the report."""
    _check_keys(asked, COMPARISON)
    models = asked.get("models", [])
    if not isinstance(models, list) or len(models) > MOST_MODELS:
        raise UsageError(f"models is a list of at most {MOST_MODELS} names")
    for model in models:
        _check_candidate(model)
    reading = checked_options(asked.get("reading", {}))
    data = data_word(studio, asked.get("data"), reading)
    if not data:
        raise UsageError("on which data? A comparison needs some")
    options = checked_options(asked.get("options", {}))
    if unknown := sorted(options.keys() - COMPARE_OPTIONS):
        raise UsageError(f"compare has no option {unknown[0]!r}; {did_you_mean(unknown[0], sorted(COMPARE_OPTIONS))}")
    folder = free(studio.root / _folder_name(asked.get("folder") or "comparison"), studio.jobs.promised())
    words = ["compare", *models, f"--data={data}", f"--out={folder}", *as_words(reading)]
    return [*words, *as_words({name: value for name, value in options.items() if value is not False}), "--json"], folder


def _check_keys(asked: Mapping[str, Any], known: Collection[str]) -> None:
    for key in asked.keys() - {"what", *known}:
        raise UsageError(f"nobody knows {key!r:.60} here; {did_you_mean(key, sorted(known))}")


def _check_candidate(model: Any) -> None:
    """Refuse what is not name:option=value,option=value, with names of the catalogue for the model and those inside."""
    from deepcanon.blueprints import blueprint
    from deepcanon.catalogue import find
    from deepcanon.core import arguments_of
    from deepcanon.core.options import split
    from deepcanon.core.spec import is_model

    if not isinstance(model, str) or not model.isprintable() or len(model) > MOST_VALUE:
        raise UsageError("a model is written name:option=value,option=value")
    name, options = split(model)
    parameters = arguments_of(find(_catalogue_name(name)))
    for option, value in options.items():
        if option in parameters and is_model(parameters[option].annotation):
            _catalogue_name(value)
    blueprint(model)


def _catalogue_name(name: Any) -> str:
    """The name of a model of the catalogue; code and folders of runs are for the command line alone."""
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum() or not name[0].isalpha():
        raise UsageError(f"which model? {name!r:.60} is not a name of 'deepcanon list'")
    if not is_name(name):
        check_model(name)
        raise UsageError(f"there is no model {name!r:.60}")
    return name.lower().replace("-", "_")


def _arguments(studio: Studio, name: str, given: dict[str, str | bool]) -> dict[str, str | bool]:
    """The arguments of a model, where those that are models themselves are names of the catalogue or listed runs."""
    from deepcanon.catalogue import find
    from deepcanon.core import arguments_of
    from deepcanon.core.spec import is_model, wrapped_by_default

    cls = find(name)
    wrapped = wrapped_by_default(cls, given)
    for option in [key for key, parameter in arguments_of(cls).items() if is_model(parameter.annotation)]:
        inside = f"{option}."
        own = {key.removeprefix(inside): given.pop(key) for key in list(given) if key.startswith(inside)}
        word = given.get(option, wrapped.get(option))
        if isinstance(word, str) and word.startswith(RUN) and not own:
            given[option] = str(studio.run(word.removeprefix(RUN)))
        elif word is not None or own:
            checked = _arguments(studio, _catalogue_name(word), own)
            given.update({f"{inside}{key}": value for key, value in checked.items()})
    return given


def data_word(studio: Studio, data: Any, reading: dict[str, str | bool]) -> str:
    """Data by name with their forms, or a file that was named when the studio was started; none by default."""
    for option in reading:
        if option not in listed_options(Reading):
            raise UsageError(f"data are not read by {option!r}; {did_you_mean(option, listed_options(Reading))}")
    for option in FILES_OF_READING:
        if option in reading:
            if reading[option] not in studio.files:
                raise UsageError(f"{option} is a file that was named when the studio was started, by --data FILE")
            reading[option] = str(studio.files[str(reading[option])])
    if data in (None, ""):
        return ""
    if not isinstance(data, str) or len(data) > MOST_VALUE:
        raise UsageError("data are given by name")
    for name, path in studio.files.items():
        if data == name or (data.startswith(f"{name}:") and _FORMS.fullmatch(data[len(name) :])):
            return f"{path}{data[len(name) :]}"
    name, colon, forms = data.partition(":")
    known = data_names()
    if name not in {each.partition(":")[0] for each in known} or not _FORMS.fullmatch(f"{colon}{forms}"):
        raise UsageError(f"there are no data {data!r:.60} here; {did_you_mean(data, [*studio.files, *known])}")
    return data


def _check_values(name: str, arguments: Mapping[str, str | bool], settings: Mapping[str, str | bool]) -> None:
    """Read all values as the command line does, so that the page hears the same sentence, and at once."""
    from deepcanon.blueprints import from_words
    from deepcanon.core.annotations import read_value
    from deepcanon.train.settings import resolve_settings

    words: dict[str, Sequence[str]] = {}
    for option, value in arguments.items():
        head, dot, last = option.rpartition(".")
        words[f"{head}{dot}no_{last}" if value is False else option] = [] if isinstance(value, bool) else [value]
    asked = from_words(name, words)
    typed: dict[str, Any] = {}
    for option, value in settings.items():
        kind = listed_options(Settings)[option][0]
        if isinstance(value, bool):
            typed[option] = value
        elif kind in (int, float, int | None, float | None):
            typed[option] = read_value(option, [value], kind)
        else:
            typed[option] = value
    resolve_settings(asked.cls.recipe, **typed)


def _folder_name(wanted: Any) -> str:
    """A plain name for a folder below the root: letters, digits, hyphens, underscores and points inside."""
    plain = isinstance(wanted, str) and 0 < len(wanted) <= 80 and wanted.isascii()
    if not plain or not all(letter.isalnum() or letter in "-_." for letter in wanted) or wanted.startswith((".", "-")):
        raise UsageError("the name of the run's folder has letters, digits, hyphens and underscores only")
    return str(wanted)
