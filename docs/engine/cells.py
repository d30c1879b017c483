"""Code cells of Markdown pages: read, run in a forked process, and remembered as long as nothing they used changes.

A chapter or a guide marks its cells by ``{code-cell}``, and by ``{code-cell} sh`` those that are commands; of README
and the other pages the plain Python blocks are the cells. A page is one Python session. Its process is forked from one
that has torch already, gets an alarm for each cell and a budget of processor time for all of them, and every warning in
it is an error.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import gc
import hashlib
import html
import importlib
import importlib.metadata
import importlib.util
import io
import json
import multiprocessing
import os
import platform
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from docs.engine import commands

PACKAGE = Path(str(getattr(importlib.util.find_spec("deepcanon"), "origin", ""))).parent
"""The library: what a page imports of it is what it depends on."""
ALARM = 60
"""The seconds of processor time after which a cell is ended: on a busy machine, a minute says little."""
BUDGET = 5.0
"""The seconds of processor time that the cells of a page may take together, unless its front matter says otherwise."""
BUSY = 3
"""How many times its budget a page may take before it fails: cores that share a cache count more time for the same."""
LIBRARIES = ("torch", "numpy", "matplotlib", "scikit-learn")
IMPORTED_ONCE = (
    "matplotlib.figure", "networkx", "pydantic.type_adapter", "scipy.stats", "sklearn.datasets", "sklearn.ensemble",
    "torch._dynamo", "typer",
    "deepcanon.data.load", "deepcanon.diagnosis", "deepcanon.laws", "deepcanon.train",
)  # fmt: skip
"""What most pages import, which takes seconds; of torch that is what its optimizers ask for.

Of the library only what nearly every chapter needs: a page is run again when one of these has changed.
"""
WIDEST = 7.5
"""The inches of a picture whose letters can be read when it is as wide as a phone."""
FENCE = re.compile(r"^```(?P<kind>\{code-cell\}(?: sh)?|python)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"^````\n.*?^````$", re.DOTALL | re.MULTILINE)
"""What shows how a cell is written."""
SETUP = re.compile(r"^<!-- setup\n(?P<body>.*?)^-->$", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r":([\w-]+):[ ]?(.*)\n")
MATTER = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
FILLED = re.compile(r"\{\{ (\w+)(?::([^}]*))? \}\}")


class CellError(Exception):
    """A cell that raises, takes too long, or leaves a number of the prose undefined."""


@dataclass(frozen=True)
class Cell:
    """One cell: its code, the options that its fence names, and its place in the page."""

    code: str
    options: Mapping[str, str]
    line: int
    span: tuple[int, int]
    language: str = "python"

    def lacks(self) -> list[str]:
        """The packages that it needs, by its option ``needs``, and that are not installed here."""
        return [name for name in self.options.get("needs", "").split() if importlib.util.find_spec(name) is None]


@dataclass(frozen=True)
class Output:
    """One output of a cell: its kind (``text``, ``html``, or ``png`` in base64), its content, and a picture's words."""

    kind: str
    content: str
    alt: str = ""


@dataclass(frozen=True)
class Ran:
    """The outputs of each cell of a page, the values that its prose asks for, its cost, and the files it imported."""

    outputs: Sequence[Sequence[Output]]
    values: Mapping[str, str]
    seconds: float
    files: Mapping[str, str] = field(default_factory=dict)


def matter(text: str) -> dict[str, str]:
    """The front matter of a page, one ``name: value`` in a line.

    >>> matter("---\\nrows: [E01, E02]\\n---\\n# Title\\n")
    {'rows': '[E01, E02]'}
    """
    found = MATTER.match(text)
    lines = found[1].splitlines() if found else []
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def cells(text: str) -> list[Cell]:
    """The cells of a page in their order: those of ``{code-cell}``, or where there are none its Python blocks.

    Interactive examples, whose outputs are written down, are doctests and not cells. A comment that begins with
    ``setup`` holds code that readers do not need to see.
    """
    text = QUOTED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    fences = [fence for fence in FENCE.finditer(text) if not fence["body"].startswith(">>> ")]
    marked = [fence for fence in fences if fence["kind"] != "python"]
    found = [*(marked or fences), *SETUP.finditer(text)]
    return [_cell(each, text) for each in sorted(found, key=lambda each: each.start())]


def _cell(fence: re.Match[str], text: str) -> Cell:
    body, options = fence["body"], dict[str, str]()
    if fence[0].startswith("<!--"):
        options["hide-input"] = ""  # a setup
    while option := OPTION.match(body):
        options[option[1]] = option[2].strip()
        body = body[option.end() :]
    language = "sh" if fence.groupdict().get("kind", "").endswith(" sh") else "python"
    return Cell(body, options, text.count("\n", 0, fence.start()) + 1, fence.span(), language)


def results(pages: Mapping[str, str], cache: Path, processes: int) -> dict[str, Ran]:
    """What the cells of each page give, by the name of the page; unless something has changed, none is run again."""
    with_cells = {name: text for name, text in pages.items() if cells(text)}
    known = {name: found for name, text in with_cells.items() if (found := _remembered(cache, name, text)) is not None}
    missing = [(name, text) for name, text in with_cells.items() if name not in known]
    missing.sort(key=lambda page: -_budget(page[1]))  # so that no long one is left for the end
    if missing:
        import_once()
        context = multiprocessing.get_context("fork")
        with context.Pool(min(processes, len(missing)), maxtasksperchild=1) as pool:
            for name, ran in pool.imap_unordered(_named, missing, chunksize=1):
                if isinstance(ran, str):
                    raise CellError(ran)
                known[name] = ran
                _remember(cache, name, pages[name], ran)
    return known


def import_once() -> None:
    """Import what most pages need, before processes are forked, and spare their garbage collectors all of it."""
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()


def run_page(name: str, text: str, budget: float = BUDGET) -> Ran:
    """Run the cells of a page in a process of its own, without any memory of earlier runs.

    ``budget`` is that of a page whose front matter has none.
    """
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        _, ran = pool.apply(_named, ((name, text), budget))
    if isinstance(ran, str):
        raise CellError(ran)
    return ran


def _named(page: tuple[str, str], budget: float = BUDGET) -> tuple[str, Ran | str]:
    name, text = page
    sys.settrace(None)  # a coverage that was begun before the fork would spend the page's budget
    threading.settrace(None)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return name, _session(name, text, _budget(text, budget))
        except CellError as error:
            return name, str(error)


def _budget(text: str, otherwise: float = BUDGET) -> float:
    return float(matter(text).get("budget", otherwise))


def _session(name: str, text: str, budget: float) -> Ran:
    import matplotlib as mpl
    import numpy as np
    import torch

    mpl.use("Agg")
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (what a cell of anybody's may draw from)
    torch.manual_seed(0)
    sys.path.insert(0, os.getcwd())  # a page may import the files that it writes
    signal.signal(signal.SIGPROF, _ring)
    begun = _spent()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    outputs = [_run(name, cell, namespace) for cell in cells(text)]
    spent = _spent() - begun
    if spent > BUSY * budget:
        raise CellError(f"{name}: the cells take {spent:.1f} s of processor time, and the page has {budget:g} s")
    return Ran(outputs, _values(name, text, namespace), spent, _imported())


def _ring(*_: Any) -> None:
    raise TimeoutError(f"the cell takes more than {ALARM} s")


def _spent() -> float:
    """The seconds of processor time that this process and those that it has started took."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _run(name: str, cell: Cell, namespace: dict[str, Any]) -> list[Output]:
    """The outputs of a cell: what it prints, and the value of its last line where that is an expression."""
    printed, value = io.StringIO(), None
    where = f"{name}, line {cell.line}"
    if lacking := cell.lacks():
        return [Output("text", f"(not run here: it needs {', '.join(lacking)})")]
    if "file" in cell.options:  # a module of the reader's, which later cells import or name
        Path(cell.options["file"]).write_text(cell.code, encoding="utf-8")
        return []
    signal.setitimer(signal.ITIMER_PROF, ALARM)
    try:
        if cell.language == "sh":
            asked = {name: int(cell.options[name]) for name in ("code", "last") if name in cell.options}
            return [Output("text", said)] if (said := commands.run(cell.code, **asked)) else []
        tree = ast.parse(cell.code, where)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, where, "exec"), namespace)  # noqa: S102  (a cell of the book is code)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), where, "eval"), namespace)  # noqa: S307
    except BaseException as error:
        lines = "".join(traceback.format_exception_only(error)).strip()
        raise CellError(f"{where}: the cell raised {lines}\n\n{cell.code}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    text = [Output("text", printed.getvalue())] if printed.getvalue() else []
    return text if value is None else [*text, _shown(value, cell)]


def _shown(value: Any, cell: Cell) -> Output:
    """A value as a notebook displays it: a figure as a picture, else as HTML, else as text."""
    if hasattr(value, "_repr_png_"):
        words = cell.options.get("alt") or _headline(value)
        if not words:
            raise CellError(f"line {cell.line}: a picture needs words for those who do not see it: give :alt:")
        return Output("png", base64.b64encode(value._repr_png_()).decode(), words)
    if (shown := getattr(value, "_repr_html_", lambda: None)()) is not None:
        return Output("html", str(shown))
    return Output("text", value if isinstance(value, str) else repr(value))


def _headline(figure: Any) -> str:
    return " ".join(str(getattr(figure, "get_suptitle", str)()).split())


def _values(name: str, text: str, namespace: Mapping[str, Any]) -> dict[str, str]:
    """The numbers of the prose, which cells have computed, as they are to be written."""
    asked = {found[0]: (found[1], found[2] or "") for found in FILLED.finditer(text)}
    for variable, _ in asked.values():
        if variable not in namespace:
            raise CellError(f"{name}: the text asks for {{{{ {variable} }}}}, which no cell defines")
    return {written: format(namespace[variable], form) for written, (variable, form) in asked.items()}


def woven(text: str, ran: Ran, pictures: Path, where: str) -> str:
    """The page as Sphinx reads it: each cell followed by its outputs, each number of the prose filled in.

    Pictures are written into the folder ``pictures``, which the page knows as ``where``.
    """
    for cell, outputs in reversed(list(zip(cells(text), ran.outputs, strict=True))):
        start, end = cell.span
        text = text[:start] + _markdown(cell, outputs, pictures, where) + text[end:]
    return FILLED.sub(lambda found: ran.values[found[0]], text)


def _markdown(cell: Cell, outputs: Iterable[Output], pictures: Path, where: str) -> str:
    hidden = "hide-input" in cell.options
    named = f":caption: {cell.options['file']}\n" if "file" in cell.options else ""
    parts = [] if hidden else [f"```{{code-block}} {cell.language}\n{named}:class: cell\n\n{cell.code}```"]
    for output in outputs:
        if output.kind == "png":
            content = base64.b64decode(output.content)
            wide = " wide" if is_wide(content) else ""
            file = f"{hashlib.sha256(content).hexdigest()[:16]}.png"
            pictures.mkdir(parents=True, exist_ok=True)
            (pictures / file).write_bytes(content)
            caption = cell.options.get("caption", "")
            parts.append(f"```{{figure}} {where}/{file}\n:alt: {output.alt}\n:figclass: output{wide}\n\n{caption}\n```")
        elif output.kind == "html":
            parts.append(f'```{{raw}} html\n<div class="output">{output.content}</div>\n```')
        else:
            lines = output.content.rstrip()
            kind = "output sentences" if max(map(len, lines.split("\n"))) > commands.WIDTH else "output"
            parts.append(f'```{{raw}} html\n<pre class="{kind}">{html.escape(lines)}</pre>\n```')
    return "\n\n".join(parts)


def is_wide(png: bytes) -> bool:
    """Whether the letters of a picture would be too small on a phone that shows all of it."""
    width, height = struct.unpack(">II", png[16:24])
    place = png.find(b"pHYs") + 4  # pixels per meter
    inches = width / (struct.unpack(">I", png[place : place + 4])[0] * 0.0254) if place > 3 else 0.0
    return bool(width > 1.5 * height or inches > WIDEST)


def _key(text: str) -> str:
    """What decides about the outputs of a page besides ours: its cells, this file, and the libraries of others."""
    parts = [cell.code + repr((cell.options, cell.lacks())) for cell in cells(text)]
    asked = [found[0] for found in FILLED.finditer(text)]
    versions = [platform.python_version(), *(importlib.metadata.version(name) for name in LIBRARIES)]
    runners = [Path(file).read_text(encoding="utf-8") for file in (__file__, commands.__file__)]
    return _digest("\n".join([*parts, *asked, *versions, *runners]).encode())


def _imported() -> dict[str, str]:
    """The files of the library that this process has imported, each with the digest of its content."""
    loaded = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    own = sorted({file for file in loaded if file.is_relative_to(PACKAGE)})
    return {file.relative_to(PACKAGE).as_posix(): _digest(file.read_bytes()) for file in own}


def _remembered(cache: Path, name: str, text: str) -> Ran | None:
    file = _memory(cache, name)
    if not file.is_file():
        return None
    record = json.loads(file.read_text(encoding="utf-8"))
    if record.pop("key") != _key(text) or any(_changed(path, digest) for path, digest in record["files"].items()):
        return None
    outputs = [[Output(**each) for each in one] for one in record.pop("outputs")]
    return Ran(outputs=outputs, **record)


def _changed(path: str, digest: str) -> bool:
    file = PACKAGE / path
    return not file.is_file() or _digest(file.read_bytes()) != digest


def _remember(cache: Path, name: str, text: str, ran: Ran) -> None:
    file = _memory(cache, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = file.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps({"key": _key(text), **asdict(ran)}), encoding="utf-8")
    whole.replace(file)


def _memory(cache: Path, name: str) -> Path:
    return cache / f"{name.replace('/', '.')}.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
