"""A blueprint: a model that is asked for and not built yet."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deepcanon.core.annotations import describe_type, show_value
from deepcanon.core.errors import UsageError
from deepcanon.core.model import TREE, Model
from deepcanon.core.plain_module import PlainModule
from deepcanon.core.spec import SIZES, arguments_of, is_model, with_sizes, wrapped_by_default
from deepcanon.core.stored import fits

Find = Callable[[str], "type[Model[Any]] | Model[Any]"]
"""Finds the class of a model by its name, or a model that no class can build again."""


@dataclass(frozen=True)
class Blueprint:
    """The class and the arguments of a model that is not built yet, since its sizes come from the data.

    An argument that is itself a model is a blueprint of its own, or, where ``trained`` is given, a model that is there
    already. ``label`` is how it was asked for.

    >>> from deepcanon.core.toy import Toy
    >>> Blueprint(Toy).build({"features": 3}, "some data").hparams["features"]
    3
    """

    cls: type[Model[Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    trained: Model[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise UsageError(
                f"the arguments of {self.cls.name()} are a mapping of names to values, got {self.arguments!r}"
            )
        parameters = arguments_of(self.cls)
        for name in sorted(self.arguments.keys() - parameters.keys()):
            raise UsageError(f"{self.cls.name()} takes no argument {name}; it takes {', '.join(parameters)}")
        if not self.label:
            given = ",".join(f"{name}={_shown(value)}" for name, value in self.arguments.items())
            object.__setattr__(self, "label", f"{self.cls.name()}:{given}" if given else self.cls.name())

    @classmethod
    def of(cls, model: Any, find: Find, arguments: Mapping[str, Any] | None = None) -> Blueprint:
        """The blueprint of a model given by its name, its class, ``{"model": name, "arguments": {...}}``, or itself.

        Models among the arguments may be given in the same ways; a method wraps its default model if none is given.
        """
        if isinstance(model, Model):
            model = cls(type(model), {}, f"the {model.name()} that was given", model)
        if isinstance(model, Blueprint):
            if not arguments:
                return model
            if model.trained is not None:
                raise UsageError(f"{model.label} has its arguments already: leave out {', '.join(arguments)}")
            return cls.of(model.cls, find, {**model.arguments, **arguments})
        if isinstance(model, Mapping) and "model" in model:
            return cls.of(model["model"], find, {**model.get("arguments", {}), **(arguments or {})})
        found = find(model) if isinstance(model, str) else model
        if isinstance(found, Model):
            return cls.of(found, find, arguments)
        if not (inspect.isclass(found) and issubclass(found, Model)):
            raise UsageError(f"model is the name of a model or its class, got {model!r}")
        asked = cls(found, arguments or {})
        wrapped = wrapped_by_default(found, asked.arguments)
        inner = {name for name, parameter in arguments_of(found).items() if is_model(parameter.annotation)}
        built = {
            name: cls.of(value, find) if name in inner and value is not None else value
            for name, value in {**wrapped, **asked.arguments}.items()
        }
        return cls(found, built, asked.label)

    @classmethod
    def from_json(cls, content: Mapping[str, Any], find: Find) -> Blueprint:
        """The blueprint that :func:`describe` has written; nothing in it names code."""
        name, arguments = content["model"], content["arguments"]
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise UsageError(f"a model is described by its name and its arguments, got {str(content)[:100]}")
        found = find(name)
        if isinstance(found, Model):
            if describe(found) != content:
                raise UsageError(f"the {name} that was given is another: {describe(found)}, not {content}")
            return cls.of(found, find)
        parameters = arguments_of(found)
        if unknown := ", ".join(sorted(arguments.keys() - parameters.keys()))[:100]:
            raise UsageError(f"{name} takes no argument {unknown}: made by another version?")
        rebuilt = {key: _rebuilt(value, find) for key, value in arguments.items()}
        for key, value in rebuilt.items():
            models: list[Blueprint] = []
            _changed({key: value}, Blueprint, models.append)  # which are checked by themselves
            if not (models or is_model(parameters[key].annotation) or fits(parameters[key].annotation, value)):
                takes = describe_type(parameters[key].annotation)
                raise UsageError(f"the argument {key} of {name} takes {takes}, got {str(value)[:100]!r}")
        return cls(found, rebuilt)

    @property
    def inner(self) -> tuple[Blueprint, ...]:
        """The models among the arguments, in their order."""
        found: list[Blueprint] = []
        _changed(dict(self.arguments), Blueprint, found.append)
        return tuple(found)

    def everything(self) -> Iterator[Blueprint]:
        """This blueprint and all that are inside it."""
        yield self
        for part in self.inner:
            yield from part.everything()

    def changed(self, changes: Mapping[str, Any]) -> Blueprint:
        """The same model with some of its arguments changed."""
        return replace(self, arguments={**self.arguments, **changes}, label="")

    def find(self, name: str) -> type[Model[Any]] | Model[Any]:
        """The class of this name among those of the blueprint: a run of it can hold no other."""
        known = {part.cls.name(): _again(part.cls, part.trained) for part in self.everything()}
        if name not in known:
            raise UsageError(f"the run holds a {name} where {self.label} was expected; choose another folder")
        return known[name]

    def missing(self) -> list[str]:
        """The arguments that must be given and are not; sizes come from the data."""
        parameters = arguments_of(self.cls) if self.trained is None else {}
        empty = [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]
        return [name for name in empty if name not in {*self.arguments, *SIZES}]

    def build(self, sizes: Mapping[str, int] | None = None, data: str = "the data") -> Model[Any]:
        """The model, with the sizes that it needs filled in from the data of this name."""
        sizes = sizes or {}
        if self.trained is not None:
            return copy.deepcopy(self._fitting(self.trained, sizes, data))
        for name in self.missing():
            takes = describe_type(arguments_of(self.cls)[name].annotation)
            raise UsageError(f"{self.cls.name()} needs the argument {name}: {takes}")
        # A method that takes the number of classes itself gives a trained model another head.
        own = {"classes"} & arguments_of(self.cls).keys()
        kept = {name: size for name, size in sizes.items() if name not in own}

        def built(value: Any) -> Any:
            return value.build(sizes if value.trained is None else kept, data)

        given = {name: _changed(value, Blueprint, built) for name, value in self.arguments.items()}
        return self.cls(**with_sizes(self.cls, sizes, given, data))

    def to_options(self, prefix: str = "--") -> list[str]:
        """The arguments as words of the command line."""
        words: list[str] = []
        for name, value in self.arguments.items():
            option = f"{prefix}{name}".replace("_", "-")
            if isinstance(value, Blueprint):
                words += [option, value.cls.name(), *value.to_options(f"{option}.")]
            else:
                words += [option, show_value(value)]
        return words

    def _fitting(self, model: Model[Any], sizes: Mapping[str, int], data: str) -> Model[Any]:
        """The trained model, if data of these sizes suit it."""
        for name, size in sizes.items():
            if model.hparams.get(name, size) not in (size, None):
                raise UsageError(f"{name} is {size} in {data}, but {model.hparams[name]} in {self.label}")
        return model


def _shown(value: Any) -> str:
    """A value as it stands in a label."""
    return value.label if isinstance(value, Blueprint) else show_value(value).replace(",", "/")


def describe(model: Model[Any]) -> dict[str, Any]:
    """A model as ``{"model": name, "arguments": {...}}``, from which a blueprint builds it again.

    >>> from deepcanon.core.toy import Toy
    >>> describe(Toy(features=3))
    {'model': 'Toy', 'arguments': {'features': 3}}
    """
    return {"model": model.name(), "arguments": {name: _plain(value) for name, value in model.hparams.items()}}


def own_parts(model: Model[Any]) -> dict[str, type[Model[Any]] | Model[Any]]:
    """By name what is needed to build a model again, besides the catalogue: the classes that are not of its tree.

    >>> from deepcanon.core.toy import Toy
    >>> own_parts(Toy(features=3))["Toy"] is Toy
    True
    """
    found: dict[str, Model[Any]] = {}
    for part in _described(model):
        if type(part).__module__.startswith(TREE):
            continue
        if type(found.setdefault(part.name(), part)) is not type(part):
            raise UsageError(f"two classes of the model are called {part.name()}: give one of them another name")
    return {name: _again(type(part), part) for name, part in found.items()}


def _again(cls: type[Model[Any]], model: Model[Any] | None) -> type[Model[Any]] | Model[Any]:
    """What builds a model again: its class or, of a plain module, only the model itself."""
    return model if isinstance(model, PlainModule) else cls


def _described(value: Any) -> Iterator[Model[Any]]:
    """The models in a value, and those among their arguments."""
    if isinstance(value, Model):
        yield value
        yield from _described(tuple(value.hparams.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _described(item)
    elif isinstance(value, Mapping):
        yield from _described(tuple(value.values()))


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return describe(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"a constructor argument must be JSON-able or a Model, got {type(value).__name__}")


def _rebuilt(value: Any, find: Find) -> Any:
    """The value that JSON stands for: constructors take tuples, JSON knows only lists."""
    if isinstance(value, list):
        return tuple(_rebuilt(item, find) for item in value)
    if isinstance(value, dict):
        if value.keys() == {"model", "arguments"}:
            return Blueprint.from_json(value, find)
        return {key: _rebuilt(item, find) for key, item in value.items()}
    return value


def _changed(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The value with everything of this kind in it changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_changed(item, kind, change) for item in value)
    if isinstance(value, dict):
        return {key: _changed(item, kind, change) for key, item in value.items()}
    return value
