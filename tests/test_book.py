"""The book: its cells run, its links lead somewhere, every entry of the catalogue has its page, and it builds."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deepcanon import catalogue
from deepcanon.core.finding import drawn
from deepcanon.data.load import entries
from deepcanon.laws import KINDS
from deepcanon.pictures.style import new_figure
from docs.engine import cells, katex, staging
from tests.written_commands import commands, fault

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "docs" / "book"
ABOUT = ("index", "notation", "writing")
"""The pages of the book that are not chapters."""
CHAPTERS = sorted(path.stem for path in BOOK.glob("*.md") if path.stem not in ABOUT)
RUN = sorted(address for address in staging.sources() if address.startswith(staging.RUN))
"""The pages whose cells are run: chapters, guides and notebooks."""
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
HEADINGS = (
    "## The idea", "## The smallest code", "## The picture", "## The law, and how one would notice that it is broken",
    "## What goes wrong in practice", "## Exercises", "## Where the literature went next",
)  # fmt: skip
PAGE = """---
budget: 3
---
# Title

```{code-cell}
:alt: A line.
import deepcanon.core.plural
share = 0.12345
print("said")
share * 2
```

The share is {{ share:.2f }}.
"""


def text_of(chapter: str) -> str:
    return (BOOK / f"{chapter}.md").read_text(encoding="utf-8")


def rows(words: str) -> list[str]:
    """The rows that a plan names: ``E01-E03 P03`` are four."""
    found = []
    for word in words.split():
        first, _, last = word.partition("-")
        found += [f"{first[0]}{number:02}" for number in range(int(first[1:]), int((last or first)[1:]) + 1)]
    return found


def plan() -> dict[str, list[str]]:
    with (BOOK / "plan.csv").open(encoding="utf-8") as file:
        return {line["chapter"]: rows(line["rows"]) for line in csv.DictReader(file)}


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of the build, so that it does not run again what was run page by page."""
    return tmp_path_factory.mktemp("book")


@pytest.mark.slow
@pytest.mark.parametrize(
    "address", [address for address in RUN if cells.cells(staging.read(staging.sources()[address]))]
)
def test_the_cells_of_a_page_run_within_its_budget(address: str, remembered: Path) -> None:
    text = staging.read(staging.sources()[address])
    ran = cells.results({address: text}, remembered / "cells", 1)[address]
    if address.startswith("book/"):
        assert any(output.kind == "png" for outputs in ran.outputs for output in outputs)


def test_every_page_that_is_run_stands_in_a_table_of_contents() -> None:
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [address for address in RUN if f"\n{address}\n" not in contents] == []
    for folder in ("guides", "notebooks"):
        index = (ROOT / "docs" / folder / "index.md").read_text(encoding="utf-8")
        pages = [path.name for path in sorted((ROOT / "docs" / folder).glob("*.*")) if path.stem != "index"]
        assert [name for name in pages if f"({name})" not in index] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_opens_as_it_is_and_has_no_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["cells"][0]["source"][0].startswith("# ")
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len({*ids})
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"  # as Jupyter writes it


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_its_parts_and_stands_in_the_plan(chapter: str) -> None:
    text = text_of(chapter)
    places = [text.find(heading) for heading in HEADINGS]
    assert -1 not in places, [heading for heading, place in zip(HEADINGS, places, strict=True) if place < 0]
    assert places == sorted(places)
    assert "**The question.**" in text
    assert text.count(":::{answer}") >= 3
    assert rows(cells.matter(text)["rows"]) == plan()[chapter]
    assert f"({chapter}.md)" in text_of("index")
    assert f"book/{chapter}\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("address", RUN)
def test_the_code_of_a_page_is_no_wider_than_the_page(address: str) -> None:
    shown = [cell for cell in cells.cells(staging.read(staging.sources()[address])) if "hide-input" not in cell.options]
    lines = [line for cell in shown if "file" not in cell.options for line in cell.code.splitlines()]
    assert [line for line in lines if len(line) > 90] == []


def test_a_picture_whose_letters_a_phone_would_make_too_small_is_wide() -> None:
    for width, height, wide in ((6, 5, False), (6, 3, True), (9, 9, True)):
        assert cells.is_wide(drawn(new_figure(width, height))) == wide


def test_no_row_of_the_canon_belongs_to_two_chapters() -> None:
    every = [row for found in plan().values() for row in found]
    assert len(every) == len({*every}) == 160


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_every_name_to_a_page() -> None:
    known = {("model", each.name): f"models/{each.family}/{each.name}" for each in catalogue.entries()}
    known |= {
        (kind, each.name): f"{kind}/{each.name}" for kind in catalogue.FOLDERS for each in catalogue.questions(kind)
    }
    known |= {("law", kind): f"laws-of/{kind}" for kind in KINDS} | {
        ("data", name): f"data/{name}" for name in entries()
    }
    for address, text in staging.texts().items():
        staging.linked(text, address, known)


def test_a_link_to_nowhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, said in (("[a](nowhere.md)", "links to nowhere.md"), ("{model}`vea`", "names the model 'vea'")):
        with pytest.raises(staging.StagingError, match=re.escape(said)):
            staging.linked(text, "book/index", {})
    quoted = "`x[0](y)` and\n```python\nx[0](y)\n```\n"
    assert staging.linked(quoted, "book/index", {}) == quoted
    assert staging.linked("[a](../data.md#forms)", "book/index", {}) == "[a](../data.md#forms)"
    assert staging.linked("[a](docs/data.md)", "project/readme", {}) == "[a](../data.md)"
    assert staging.linked("[a](LICENSE)", "project/readme", {}) == f"[a]({staging.SITE}/LICENSE)"


@pytest.mark.slow
def test_a_page_runs_is_remembered_and_runs_again_when_the_library_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cells.results({"page": PAGE}, tmp_path, 1)["page"]
    assert [output.content for output in ran.outputs[0]] == ["said\n", "0.2469"]
    assert "core/plural.py" in ran.files
    monkeypatch.setattr(cells, "_named", None)  # which would be called to run it again
    assert cells.results({"page": PAGE}, tmp_path, 1)["page"] == ran
    woven = cells.woven(PAGE, ran, tmp_path / "out", "/out")
    assert "The share is 0.12." in woven
    assert '<pre class="output">said</pre>' in woven
    said = replace(ran, outputs=[[cells.Output("text", "word " * 40)]])
    assert '<pre class="output sentences">word word' in cells.woven(PAGE, said, tmp_path / "out", "/out")
    assert cells._remembered(tmp_path, "page", PAGE.replace("* 2", "* 3")) is None
    hidden = "<!-- setup\nx = 1\n-->\n"
    assert cells.woven(hidden, cells.Ran([[]], {}, 0.0), tmp_path / "out", "/out").strip() == ""
    monkeypatch.setattr(cells, "_changed", lambda path, digest: path == "core/plural.py")
    assert cells._remembered(tmp_path, "page", PAGE) is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "line 1: the cell raised ZeroDivisionError"),
        ("import warnings\nwarnings.warn('old')", "raised UserWarning: old"),
        ("while True: pass", "more than 1 s"),
        ("sum(range(10**7))", "take .* s of processor time, and the page has 0.01 s"),
        ("x = 1\n```\n\n{{ y }}\n\n```{code-cell}\n2", "asks for {{ y }}"),
        ("from deepcanon.pictures.style import new_figure\nnew_figure(1, 1)", "give :alt:"),
    ],
)
def test_a_page_that_fails_says_where_and_why(code: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "ALARM", 1)
    with pytest.raises(cells.CellError, match=said):
        cells.run_page("page", f"```{{code-cell}}\n{code}\n```\n", 0.01 if "range" in code else 5)


@pytest.mark.slow
def test_commands_run_as_they_are_typed_and_packages_may_be_missing() -> None:
    page = """
```{code-cell}
:file: mine.py
answer = 42
```

```{code-cell} sh
head -n 1 mine.py
# a comment
deepcanon data moons:nowhere
```
"""
    with pytest.raises(cells.CellError, match="ended with the exit code 2 in place of 0"):
        cells.run_page("page", page)
    said = cells.run_page("page", page.replace("deepcanon data moons:nowhere", "deepcanon show mlp"))
    assert said.outputs[1][0].content.startswith("answer = 42\nmlp: ")
    lacking = cells.run_page("page", "```{code-cell}\n:needs: nowhere_to_be_found\nimport nowhere_to_be_found\n```\n")
    assert lacking.outputs[0][0].content == "(not run here: it needs nowhere_to_be_found)"


def test_the_files_of_katex_are_as_published() -> None:
    assert katex.changed_files() == []


@pytest.mark.slow
def test_the_build_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", str(ROOT / "docs" / "build"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "docs/build needs sphinx" in done.stderr
    assert ".[docs]" in done.stderr


needs_docs = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "furo", "myst_parser", "py_mini_racer")),
    reason="needs Sphinx and its kin, of deepcanon[docs]",
)


@pytest.fixture(scope="module")
def site(remembered: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built once without the pictures of generated ones."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "docs" / "build"), str(out), "--no-pictures", "--cache", str(remembered)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@needs_docs
@pytest.mark.slow
def test_the_book_builds_without_a_warning_and_has_a_page_for_every_entry(site: Path) -> None:
    pages = [
        f"models/{each.family}/{each.name}" for each in catalogue.entries() if each.module.startswith("deepcanon.")
    ]
    pages += [f"{catalogue.FOLDERS[kind]}/{e.name}" for kind in catalogue.FOLDERS for e in catalogue.questions(kind)]
    pages += [f"laws-of/{kind}" for kind in KINDS] + [f"data-sets/{name.replace(':', '-')}" for name in entries()]
    assert [page for page in pages if not (site / f"{page}.html").is_file()] == []
    flows = (site / "book" / "flows.html").read_text(encoding="utf-8")
    assert '<span class="katex-html"' in flows
    assert "{{" not in flows
    assert "code-cell" not in flows
    assert '<span class="after">' in flows  # no line begins with the punctuation after a formula
    assert "coupling" in (site / "searchindex.js").read_text(encoding="utf-8")
    reference = [page.read_text(encoding="utf-8") for page in sorted((site / "api").glob("*.html"))]
    assert sum('<dt class="sig' in page for page in reference) == len(reference) - 1  # all but the list of packages
    assert not any("~deepcanon" in page for page in reference)


@needs_docs
@pytest.mark.slow
def test_every_command_of_a_page_from_the_file_tree_has_what_it_names(site: Path, remembered: Path) -> None:
    pages = sorted((remembered / "plain").rglob("*.rst"))
    written = {(page.stem, line) for page in pages for line in commands(page.read_text(encoding="utf-8"))}
    assert len(written) > 300
    assert [(page, line, wrong) for page, line in sorted(written) if (wrong := fault(line)) is not None] == []


KINDS_OF_PAGES = (
    "index", "book/index", "book/notation", "book/flows", "book/training", "book/attention", "guides/own-table",
    "guides/from-pytorch", "notebooks/first-steps", "models/index", "models/flows/index", "models/flows/realnvp",
    "models/methods/lora", "insights/index", "insights/grad_cam", "studies/index", "studies/posterior_collapse",
    "laws-of/index", "laws-of/flow", "data-sets/index", "data-sets/moons", "gallery", "api/index", "commands", "data",
    "doctor", "benchmarks", "glossary", "faq", "project/readme", "project/changelog",
)  # fmt: skip
"""A page of each kind."""
PATIENCE = 180_000
"""Milliseconds after which a browser hangs, however busy the machine is."""
TASKS = {
    r"images-of-a-class|conditional_gan|guided_ddpm|conditional_vae": (
        "class-conditional images", "conditional image generation", "generate images of a given class",
        "draw digits of one class", "which model for class-conditional images",
    ),
    r"guides/own-table": (
        "train on own CSV", "my own csv file", "train on my data csv", "load a csv file", "how do I train on a CSV",
    ),
    r"ill-training|faq|posterior_collapse|book/variational": (
        "VAE ignores its latent", "why does my VAE ignore the latent", "latent variable ignored", "vae kl vanishes",
        "vae latent not used",
    ),
    r"guides/own-model": (
        "write a new flow", "implement a new normalizing flow", "custom flow", "new model two files",
        "how to write my own model",
    ),
    r"guides/onnx": (
        "export to ONNX", "onnx", "save model as onnx", "convert to onnx", "deploy model onnxruntime",
    ),
}  # fmt: skip
"""Pages that answer what newcomers ask, and how they may ask it."""


@needs_docs
@pytest.mark.slow
def test_pages_fit_a_phone_ask_nobody_and_have_no_faults(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(PATIENCE)
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else faults.append(asked.url))
    for name in KINDS_OF_PAGES:
        page.goto((site / f"{name}.html").as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        wordless = page.evaluate("[...document.images].filter((image) => !image.alt && image.src).length")
        assert (wide, wordless, faults) == (0, 0, []), name
    page.goto((site / "book" / "flows.html").as_uri())
    assert page.locator("div.math .katex-html").count() > 3
    assert page.locator(".katex-error").count() == 0
    page.close()


@needs_docs
@pytest.mark.slow
@pytest.mark.parametrize("answer", TASKS)
def test_the_first_three_hits_answer_a_newcomer(answer: str, site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    for words in TASKS[answer]:
        page.goto(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
        page.wait_for_function("/finished/i.test(document.querySelector('#search-results').innerText)")
        hits = page.evaluate("[...document.querySelectorAll('#search-results li > a')].slice(0, 3).map((a) => a.href)")
        assert any(re.search(answer, hit) for hit in hits), (words, hits)
    page.close()
