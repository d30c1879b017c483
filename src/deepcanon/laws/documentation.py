"""The laws of form: names, docstring and equations of a model, its constructor, and its description in JSON."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import sys
import tokenize
from collections.abc import Mapping
from typing import Any

from deepcanon.core import RESERVED, Batch, Blueprint, Model, arguments_of, describe
from deepcanon.core.docstrings import read_docstring
from deepcanon.laws.outcome import Measured, law, violations

SECTION = r"^{name}:\n(?P<body>(?:[ \t]+.*\n?|\n)+)"

CATALOGUE = ("deepcanon.models.", "deepcanon.methods.")
"""The packages of the models that the catalogue lists by their proper names."""

LONGEST_NAME = 70
LONGEST_LINE = 110

BLOCK = re.compile(r"^(?P<indent> *)\.\. math::(?P<body>.*(?:\n(?:(?P=indent) +.*| *$))*)", re.MULTILINE)
"""A block of equations in a docstring: it goes on as long as the lines are indented."""

NUMBER = re.compile(r"(?:\\quad|\\qquad|\s)\s*\((\d+)\)(?=\s*(?:[,.;]|\\\\|\\quad|\\qquad|\n|\Z))")
"""The number at the end of an equation."""

CITATION = re.compile(r"\beqs?\. (\(\d+\)(?:(?:, | and | or )\(\d+\))*)")
"""``eq. (1)``, or ``eqs. (1) and (2)`` where one line computes both."""

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.STRING}
"""The tokens that compute nothing."""


@law
def docstring_is_complete(model: Model[Any], batch: Batch) -> Measured:
    """A first sentence, the equation, where it comes from, and every argument."""
    cls = type(model)
    text = inspect.cleandoc(cls.__doc__ or "")
    faults = []
    if not text.partition("\n")[0].endswith("."):
        faults.append("the first line is not a sentence that ends with a period")
    if ".. math::" not in text and ":math:" not in text:
        faults.append("no equation (.. math::)")
    references = _section(text, "References")
    if not re.search(r"https?://|\b1[5-9]\d\d\b|\b20\d\d\b", references):
        faults.append("no References with a link, or with a year and a publisher")
    described = set(re.findall(r"^\s+\*{0,2}(\w+):", _section(text, "Arguments"), flags=re.MULTILINE))
    faults += [f"the argument {name} is not described" for name in arguments_of(cls) if name not in described]
    return violations(faults, f"{len(described)} arguments described")


@law
def module_docstring_is_the_proper_name(model: Model[Any], batch: Batch) -> Measured | None:
    """The docstring of a catalogue model's module is its proper name: one short line, without an article."""
    cls = type(model)
    if not cls.__module__.startswith(CATALOGUE):
        return None
    text = sys.modules[cls.__module__].__doc__ or ""
    faults = []
    if len(text.splitlines()) != 1:
        faults.append(f"the module docstring has {len(text.splitlines())} lines; its one line is the proper name")
    if not text.endswith(".") or re.search(r"[.:;] ", text):
        faults.append("the module docstring is not one name that ends with a period")
    if len(text) > LONGEST_NAME:
        faults.append(f"the module docstring has {len(text)} characters; a name has at most {LONGEST_NAME}")
    if re.match(r"(The|An?|What|How|Whether|Why)\b", text):
        faults.append(f"the proper name does not begin with {text.split()[0]!r}")
    return violations(faults, f"the proper name is {_proper_name(cls)!r}")


@law
def first_line_says_what_it_is(model: Model[Any], batch: Batch) -> Measured | None:
    """The first line of the class docstring is one plain line, and not a question."""
    cls = type(model)
    if not _is_held_to_form(cls):
        return None
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    faults = []
    if len(first.splitlines()) != 1:
        faults.append(f"the first paragraph has {len(first.splitlines())} lines where one is expected")
    if len(first) > LONGEST_LINE:
        faults.append(f"the first line has {len(first)} characters; at most {LONGEST_LINE} are read at one glance")
    if re.match(r"(What|How|Whether|Why)\b", first):
        faults.append(f"the first line begins with {first.split()[0]!r} where it should say what the model is")
    if ":math:" in first or "\\" in first or "$" in first:
        faults.append("the first line has LaTeX, which a list of models cannot show")
    return violations(faults, first)


@law
def other_names_are_well_formed(model: Model[Any], batch: Batch) -> Measured | None:
    """``Also known as: name, name.`` is the paragraph after the first line, and gives each other name once."""
    cls = type(model)
    if not _is_held_to_form(cls) or not re.search(r"also known as", cls.__doc__ or "", flags=re.IGNORECASE):
        return None
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(cls.__doc__ or ""))
    second = paragraphs[1] if len(paragraphs) > 1 else ""
    if not re.fullmatch(r"Also known as: [^\s,][^:]*\.", second):
        return violations(["the paragraph after the first line is not of the form 'Also known as: name, name.'"], "")
    names = read_docstring(cls).also_known_as
    faults = [f"{name!r} is not a name" for name in names if not name or re.match(r"(and|or)\b", name)]
    known = {name.casefold() for name in _forms(_proper_name(cls))}
    for name in names:
        if name.casefold() in known:
            faults.append(f"{name!r} is named before")
        known.add(name.casefold())
    return violations(faults, f"also known as {', '.join(names)}")


@law
def equations_are_numbered_and_cited(model: Model[Any], batch: Batch) -> Measured | None:
    """The numbers of the equations run from (1), and the lines of code that compute them end with ``# eq. (n)``.

    It needs the file of the class; a class that was typed into a session has none.
    """
    cls = type(model)
    source = _source(cls) if _is_held_to_form(cls) else None
    if source is None:
        return None
    blocks = _blocks(cls.__doc__ or "")
    faults = [
        f"the equation {' '.join(block.split())[:40]} ... does not end with a number, \\qquad (n)"
        for block in blocks
        if not re.search(r"\(\d+\)[,.;]?\Z", block)
    ]
    numbers = [int(number) for block in blocks for number in NUMBER.findall(block)]
    if numbers != list(range(1, len(numbers) + 1)):
        faults.append(f"the equations are numbered {numbers}, not from 1 to {len(numbers)} in order")
    computed = _cited_by_code(source)
    faults += [f"no line of code ends with '# eq. ({n})'" for n in dict.fromkeys(numbers) if n not in computed]
    there = _numbers_in(ast.parse(source))
    faults += [f"eq. ({n}) is cited and not in any docstring of the file" for n in _cited(source) if n not in there]
    return violations(faults, f"{len(numbers)} equations are cited where they are computed")


@law
def constructor_is_the_configuration(model: Model[Any], batch: Batch) -> Measured:
    """Every argument is explicit and annotated, and none has the name of an argument of the trainer."""
    _, *arguments = inspect.signature(type(model).__init__).parameters.values()
    faults = []
    for parameter in arguments:
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            faults.append(f"{parameter} hides arguments")
        elif parameter.annotation is parameter.empty:
            faults.append(f"{name} is not annotated")
        if name in RESERVED:
            faults.append(f"{name} is a word of the trainer")
    return violations(faults, f"{len(arguments)} arguments")


@law
def spec_round_trip(model: Model[Any], batch: Batch) -> Measured:
    """A model written as JSON and built again is the same model: arguments, and tensors of the same shapes."""
    spec = described(model)
    again = rebuilt(model)
    faults = [f"the argument {name} is not recorded" for name in arguments_of(type(model)) if name not in model.hparams]
    if described(again) != spec:
        faults.append(f"{json.dumps(spec['arguments'])} became {json.dumps(described(again)['arguments'])}")
    shapes, new = ({name: (t.shape, t.dtype) for name, t in _tensors(m)} for m in (model, again))
    faults += [f"the tensor {name} is not the same again" for name in shapes if shapes[name] != new.get(name)]
    faults += [f"the tensor {name} is new" for name in new if name not in shapes]
    return violations(faults, f"{len(spec['arguments'])} arguments and {len(shapes)} tensors came back")


def described(model: Model[Any]) -> Any:
    """The model's description, written to JSON and read again."""
    return json.loads(json.dumps(describe(model)))


def rebuilt(model: Model[Any]) -> Model[Any]:
    """A new model from the description of this one, built of the same classes as it and the models inside it."""
    classes: dict[str, type[Model[Any]]] = {}
    _collect(model, classes)
    return Blueprint.from_json(described(model), classes.__getitem__).build()


def _collect(value: Any, into: dict[str, type[Model[Any]]]) -> None:
    if isinstance(value, Model):
        into[value.name()] = type(value)
        _collect(value.hparams, into)
    elif isinstance(value, Mapping):
        _collect(tuple(value.values()), into)
    elif isinstance(value, tuple | list):
        for part in value:
            _collect(part, into)


def _tensors(model: Model[Any]) -> Any:
    return (*model.named_parameters(), *model.named_buffers())


def _section(text: str, name: str) -> str:
    found = re.search(SECTION.format(name=name), text, flags=re.MULTILINE)
    return found["body"] if found else ""


def _is_held_to_form(cls: type) -> bool:
    """Whether the class is of the catalogue, or documents its equations as the catalogue's models do."""
    text = cls.__doc__ or ""
    return cls.__module__.startswith(CATALOGUE) or ".. math::" in text or ":math:" in text


def _proper_name(cls: type) -> str:
    """The name in the module docstring of a model of the catalogue; other models have none."""
    if not cls.__module__.startswith(CATALOGUE):
        return ""
    return (sys.modules[cls.__module__].__doc__ or "").strip().removesuffix(".")


def _forms(name: str) -> list[str]:
    """A name as it is, without its abbreviation in brackets, and the abbreviation.

    >>> _forms("Low-rank adaptation (LoRA)")
    ['Low-rank adaptation (LoRA)', 'Low-rank adaptation', 'LoRA']
    """
    return [name, re.sub(r" \(.*?\)", "", name), *re.findall(r"\((.*?)\)", name)]


def _source(cls: type) -> str | None:
    """The file of the class as text, or None where there is no file that defines it."""
    try:
        source = "".join(inspect.findsource(cls)[0])
    except (OSError, TypeError):
        return None
    classes = (node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return source if cls.__name__ in classes else None


def _blocks(docstring: str) -> list[str]:
    return [found["body"].strip() for found in BLOCK.finditer(inspect.cleandoc(docstring))]


def _numbers_in(tree: ast.Module) -> set[int]:
    """The numbers of all equations in the docstrings of a file."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, owners)]
    return {int(number) for text in texts for block in _blocks(text) for number in NUMBER.findall(block)}


def _cited(text: str) -> list[int]:
    """The numbers of the equations that a text cites, each once.

    >>> _cited("# the free energy, eq. (2), and eqs. (1) and (3)")
    [2, 1, 3]
    """
    return list(dict.fromkeys(int(n) for found in CITATION.findall(text) for n in re.findall(r"\d+", found)))


def _cited_by_code(source: str) -> set[int]:
    """The numbers in the comments after code; a line that holds nothing but a comment or a string computes nothing."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    code = {token.start[0] for token in tokens if token.type not in LAYOUT}
    comments = [token for token in tokens if token.type == tokenize.COMMENT and token.start[0] in code]
    return {number for comment in comments for number in _cited(comment.string)}
