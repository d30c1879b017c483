"""Pages of models, methods, insights, studies, laws and data sets: a file of the library more, a page more."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deepcanon import catalogue
from deepcanon.catalogue import Entry, Question
from deepcanon.cli.show import facts_of
from deepcanon.core.annotations import show_value
from deepcanon.data.load import describe_data, entries
from deepcanon.laws import KINDS, kinds_of
from deepcanon.questions import filled, options_of
from docs.engine import rest
from docs.engine.cells import is_wide
from docs.engine.pictures import SOURCE, Picture

Pictures = Mapping[tuple[str, str], Picture]
FAMILIES = {
    "adversarial": "Adversarial models", "analytic": "Analytic densities", "attention": "Attention",
    "autoencoders": "Autoencoders", "autoregressive": "Autoregressive models",
    "convolutional": "Convolutional networks",
    "diffusion": "Diffusion", "energy": "Energy-based models", "feedforward": "Feed-forward networks",
    "flows": "Normalizing flows", "graphs": "Graphs", "linear": "Linear models", "methods": "Methods",
    "recurrent": "Recurrent networks", "scores": "Scores", "variational": "Variational models", "words": "Words",
}  # fmt: skip
"""Headings of the families; one that is not listed is called as its folder is."""
HEADINGS = {"grad_cam": "Grad-CAM"}
"""Headings of insights and studies that are not written as their files are called."""


@cache
def addresses() -> dict[tuple[str, str], str]:
    """The page of each model, insight, study, kind of laws and data set, by kind and name."""
    models = {("model", each.name): f"models/{each.family}/{each.name}" for each in own_models()}
    asked = {
        (kind, each.name): f"{catalogue.FOLDERS[kind]}/{each.name}"
        for kind in KINDS_OF_QUESTION
        for each in _asked(kind)
    }
    laws = {("law", kind): f"laws-of/{kind}" for kind in KINDS}
    data = {("data", name): f"data-sets/{name.replace(':', '-')}" for name in entries()}
    return models | asked | laws | data


KINDS_OF_QUESTION: tuple[Question, ...] = ("insight", "study")


def own_models() -> list[Entry]:
    """The models and methods of the library; those of other packages that are installed here have their own pages."""
    return [each for each in catalogue.entries() if each.module.startswith("deepcanon.")]


def _asked(kind: Question) -> tuple[Entry, ...]:
    return catalogue.questions(kind)


def shown_files() -> dict[tuple[str, str], Path]:
    """What has a picture, and the file that it shows."""
    listed = [("model", each) for each in own_models()]
    listed += [(kind, each) for kind in KINDS_OF_QUESTION for each in _asked(kind)]
    files = {(kind, each.name): _file(each.module) for kind, each in listed}
    sets = {("data", name): _file(each.load.__module__) for name, each in entries().items() if not each.remote.files}
    return files | sets


def _file(module: str) -> Path:
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def pages(pictures: Pictures, chapters: Mapping[tuple[str, str], list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """Every page as its address and its text; ``chapters`` are those that name a model, a law and so on."""
    where = addresses()
    laws = {each.name: _kinds(each.name) for each in own_models()}
    for entry in own_models():
        yield where["model", entry.name], _model(entry, laws[entry.name], pictures, chapters)
    yield from _families(pictures)
    for kind in KINDS_OF_QUESTION:
        for entry in _asked(kind):
            yield where[kind, entry.name], _question(kind, entry, pictures, chapters)
    for law in KINDS:
        holding = [name for name, kinds in laws.items() if law in kinds]
        yield where["law", law], _law(law, holding, chapters)
    for row in describe_data():
        yield where["data", row["name"]], _data(row, pictures, chapters)
    yield from _lists(pictures)
    yield "gallery", _gallery(pictures)


def _kinds(name: str) -> list[str]:
    return kinds_of(catalogue.find(name))


def _model(entry: Entry, kinds: list[str], pictures: Pictures, chapters: Mapping[Any, Any]) -> str:
    cls = catalogue.find(entry.name)
    facts, text = facts_of(cls), inspect.getdoc(cls) or ""
    meanings = rest.arguments(text)
    given = [
        (
            f"``{each['option']}``",
            rest.plain(each["default"], escaped=True),
            rest.plain(each["takes"], escaped=True),
            meanings.get(_python(each), ""),
        )
        for each in facts["arguments"]
    ]
    methods = [(f"``{name}``", _first_line(getattr(cls, name, None))) for name in facts["methods"]]
    recipe = [
        (f"``{name}``", f"``{show_value(value) or 'none'}``")
        for name, value in facts["recipe"].items()
        if value is not None
    ]
    siblings = [each for each in own_models() if each.family == entry.family and each.name != entry.name]
    alone = "" if facts["wraps"] else "It can only learn."
    known = f"Also known as: {', '.join(entry.also_known_as)}." if entry.also_known_as else ""
    kin = rest.link(f"models/{entry.family}/index", family(entry.family))
    return rest.page(
        rest.title(entry.title or entry.name),
        f".. rst-class:: summary\n\n{rest.plain(facts['summary'], escaped=True)}",
        f"{known} It is called ``{entry.name}``, belongs to {kin} and learns from {facts['learns_from']}.".strip(),
        rest.body_of(text),
        _picture(pictures, "model", entry.name),
        rest.title("Use it", "-"),
        _commands(facts),
        rest.title("Arguments", "-") if given else "",
        rest.table(["option", "default", "takes", "meaning"], given) if given else "",
        rest.title("Methods", "-"),
        rest.table(["method", "what it does"], methods) if methods else alone,
        f"{'Besides, it' if methods else 'It'} has the methods of the model that it wraps." if facts["wraps"] else "",
        rest.title("Recipe", "-"),
        rest.table(["setting", "value"], recipe) if recipe else "That of the model that it wraps.",
        rest.title("Laws that it keeps", "-"),
        f"``deepcanon check {entry.name}`` holds it to the laws of these kinds: {_links('law', kinds)}.",
        rest.title("Papers", "-"),
        rest.section(text, "References"),
        _mentions(chapters, "model", entry.name),
        rest.title("Its file", "-"),
        f"Marked lines compute the equations of their numbers: ``src/{_relative(entry.module)}``.",
        rest.folded("Show the code", _source(_file(entry.module))),
        f"Next to it: {_links('model', [each.name for each in siblings])}." if siblings else "",
        orphan=True,
    )


def _python(argument: Mapping[str, str]) -> str:
    return argument["option"].removeprefix("--").replace("-", "_")


def _relative(module: str) -> str:
    return _file(module).relative_to(SOURCE).as_posix()


def _first_line(method: Any) -> str:
    line = (inspect.getdoc(method) or "").partition("\n\n")[0]
    return re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) or "See the role of this name."


def _commands(facts: Mapping[str, Any]) -> str:
    name, default = facts["model"], facts["default"]
    also = f" --model {default['model']} --data {default['data']}" if default else ""
    shell = rest.code("sh", f"deepcanon train {name}{also} --out runs/{name}\ndeepcanon show {name}")
    python = f'import deepcanon as dc\n\nrun = dc.Run.train("{name}", out="runs/{name}")\nrun.evaluate()'
    return f"{shell}\n{rest.code('python', python)}"


def _source(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    marked = [str(number) for number, line in enumerate(text.splitlines(), 1) if re.search(r"# eqs?\. ", line)]
    options = [f":emphasize-lines: {','.join(marked)}"] if marked else []
    return rest.code("python", text, *options)


def _picture(pictures: Pictures, kind: str, name: str) -> str:
    found = pictures.get((kind, name))
    if found is None:
        return ""
    wide = "wide" if is_wide(Path(found.file).read_bytes()) else ""
    return rest.figure(f"/drawn/{Path(found.file).name}", found.alt, found.caption, wide)


def _links(kind: str, names: list[str]) -> str:
    where = addresses()
    return ", ".join(rest.link(where[kind, name], name) for name in names)


def _mentions(chapters: Mapping[tuple[str, str], list[tuple[str, str]]], kind: str, name: str) -> str:
    found = chapters.get((kind, name), [])
    links = ", ".join(rest.link(page, title) for page, title in found)
    return f"Read more in {links}." if found else ""


def family(name: str) -> str:
    """The heading of a family."""
    return FAMILIES.get(name, name.replace("_", " ").capitalize())


def _families(pictures: Pictures) -> Iterator[tuple[str, str]]:
    """A page for each family, and one of all."""
    names = sorted({each.family for each in own_models()}, key=family)
    for name in names:
        members = [each for each in own_models() if each.family == name]
        names_and_words = [(f"models/{name}/{each.name}", each.title or each.name, each.summary) for each in members]
        rows = [(rest.link(page, words), rest.plain(says, escaped=True)) for page, words, says in names_and_words]
        shown = [("model", each.name) for each in members]
        yield (
            f"models/{name}/index",
            rest.page(
                rest.title(family(name)),
                rest.table(["model", "what it is"], rows, "30 70"),
                _thumbnails(shown, pictures),
            ),
        )
    rows = [
        (
            rest.link(f"models/{name}/index", family(name)),
            _links("model", [e.name for e in own_models() if e.family == name]),
        )
        for name in names
    ]
    yield (
        "models/index",
        rest.page(
            rest.title("Models and methods"),
            f"{len(own_models())} models and methods under one contract; a file in the tree makes a page here.",
            rest.table(["family", "models"], rows, "25 75"),
            rest.contents(f"models/{name}/index" for name in names),
        ),
    )


def _lists(pictures: Pictures) -> Iterator[tuple[str, str]]:
    """A page that lists all insights, one of studies, one of laws and one of data sets."""
    where = addresses()
    for kind, about in (("insight", "insight"), ("study", "studies")):
        asked = _asked("study" if kind == "study" else "insight")
        rows = [
            (rest.link(where[kind, each.name], each.name), rest.plain(each.summary, escaped=True)) for each in asked
        ]
        folder = catalogue.FOLDERS["study" if kind == "study" else "insight"]
        yield (
            f"{folder}/index",
            rest.page(
                rest.title(f"All {folder}"),
                f"How they are used: :doc:`/{about}`.",
                rest.table([kind, "what it measures"], rows),
            ),
        )
    rows = [(rest.link(where["law", kind], kind), _summary(kind)) for kind in KINDS]
    yield (
        "laws-of/index",
        rest.page(
            rest.title("All laws"), "How modules are held to them: :doc:`/laws`.", rest.table(["kind", "of what"], rows)
        ),
    )
    sets = [
        (rest.link(where["data", row["name"]], row["name"]), row["kind"], rest.plain(row["source"], escaped=True))
        for row in describe_data()
    ]
    yield (
        "data-sets/index",
        rest.page(
            rest.title("All data sets"),
            "Your own files: :doc:`/data`.",
            rest.table(["name", "gives", "source"], sets),
        ),
    )


def _summary(kind: str) -> str:
    module = importlib.import_module(KINDS[kind].__module__)
    return " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())


def _question(kind: Question, entry: Entry, pictures: Pictures, chapters: Mapping[Any, Any]) -> str:
    function = catalogue.find_question(kind, entry.name)
    text = inspect.getdoc(function) or ""
    meanings = rest.arguments(text)
    options = [
        (f"``--{name.replace('_', '-')}``", f"``{show_value(each.default) or 'none'}``", meanings.get(name, ""))
        for name, each in options_of(function).items()
    ]
    subject = "" if kind == "study" else (" RUN" if "model" in filled(function) else " photo.png")
    found = pictures.get((kind, entry.name))
    said = "\n".join(f"- {rest.plain(sentence, escaped=True)}" for sentence in found.says) if found else ""
    later = (
        "" if found else "It takes up to a minute, so that its figure is drawn on your machine, by the command below."
    )
    heading = HEADINGS.get(entry.name, entry.name.replace("_", " ").capitalize())
    return rest.page(
        rest.title(heading),
        f".. rst-class:: summary\n\n{rest.plain(entry.summary, escaped=True)}",
        rest.body_of(text),
        _picture(pictures, kind, entry.name),
        f"What it says of this one:\n\n{said}" if said and kind == "insight" else said,
        later if kind == "study" else "",
        rest.title("Run it", "-"),
        rest.code("sh", f"deepcanon {kind} {entry.name}{subject} --out {entry.name}"),
        rest.title("Options", "-") if options else "",
        rest.table(["option", "default", "meaning"], options) if options else "",
        rest.title("Papers", "-") if rest.section(text, "References") else "",
        rest.section(text, "References"),
        _mentions(chapters, kind, entry.name),
        orphan=True,
    )


def _law(kind: str, models: list[str], chapters: Mapping[Any, Any]) -> str:
    module = importlib.import_module(KINDS[kind].__module__)
    text = inspect.getdoc(module) or ""
    laws = [
        (value.__name__.replace("_", " "), _first_line(value))
        for value in vars(module).values()
        if hasattr(value, "__wrapped__") and getattr(value, "__module__", "") == module.__name__
    ]
    return rest.page(
        rest.title(f"Laws: {kind.replace('_', ' ')}"),
        f".. rst-class:: summary\n\n{_summary(kind)}",
        rest.body_of(text),
        rest.table(["law", "what must hold"], laws, "35 65") if laws else "",
        rest.title("Check a module of yours", "-"),
        rest.code("sh", f"deepcanon check mine.py:MyModule --as {kind}"),
        f"Models that are held to it: {_links('model', models)}." if models else "",
        _mentions(chapters, "law", kind),
        orphan=True,
    )


def _data(row: Mapping[str, Any], pictures: Pictures, chapters: Mapping[Any, Any]) -> str:
    name, entry = row["name"], entries()[row["name"]]
    counts = [(split, f"{row[split]:,}") for split in ("train", "valid", "test")]
    facts = [
        ("gives", row["kind"]), ("shape of an example", " x ".join(map(str, row["shape"]))),
        *((f"{split} examples", count) for split, count in counts),
        *((size.replace("_", " "), str(value)) for size, value in row["sizes"].items()),
        ("comes", "along with the library" if not entry.remote.files else "as a download, or from a folder of yours"),
    ]  # fmt: skip
    forms = [(f"``{name}:{form}``", rest.plain(gives, escaped=True)) for form, gives in row["forms"].items()]
    return rest.page(
        rest.title(f"Data: {name}"),
        f"Source: {rest.plain(row['source'], escaped=True)}.",
        _picture(pictures, "data", name),
        rest.table(["fact", "value"], facts),
        rest.title("Forms", "-") if forms else "",
        rest.table(["name", "what it gives"], forms) if forms else "",
        rest.title("Use it", "-"),
        rest.code("sh", f"deepcanon data {name}\ndeepcanon compare --data {name} --out runs/compare"),
        rest.code("python", f'import deepcanon as dc\n\ndata = dc.load_data("{name}")'),
        _mentions(chapters, "data", name),
        "How your own files are read: :doc:`/data`.",
        orphan=True,
    )


def _gallery(pictures: Pictures) -> str:
    parts = [rest.title("Gallery"), "Every picture of these pages; each leads to what it shows."]
    for kind, heading in (("model", "Models"), ("insight", "Insights"), ("study", "Studies"), ("data", "Data")):
        shown = [key for key in pictures if key[0] == kind]
        parts += [rest.title(heading, "-"), _thumbnails(shown, pictures, up="")]
    return rest.page(*parts, orphan=False)


def _thumbnails(keys: list[tuple[str, str]], pictures: Pictures, up: str = "../../") -> str:
    """Small pictures that lead to their pages; the images lie where Sphinx puts those of all pages."""
    where, there = addresses(), [key for key in keys if key in pictures]
    cards = "".join(
        f'<a href="{up}{where[key]}.html"><img loading="lazy" src="{up}_images/{Path(pictures[key].file).name}" '
        f'alt="{key[1].replace("_", " ")}"><span>{key[1].replace("_", " ")}</span></a>'
        for key in there
    )
    return f'.. raw:: html\n\n   <div class="gallery">{cards}</div>\n' if there else ""
