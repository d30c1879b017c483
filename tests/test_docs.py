"""The examples of the documentation run, and say what they give."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import deepcanon as dc
from deepcanon.train import Observer
from docs.engine.cells import cells, run_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(>>> .*?)^```$", re.DOTALL | re.MULTILINE)


def examples(path: Path) -> str:
    """The interactive examples of a page, one after the other."""
    return "\n".join(BLOCK.findall(path.read_text(encoding="utf-8")))


PAGES = [path.name for path in sorted(DOCS.glob("*.md")) if examples(path)]
WITH_CODE = [
    path for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))) if cells(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_give_what_it_says(page: str) -> None:
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(examples(DOCS / page), {}, page, page, 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert test.examples
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [path.name for path in WITH_CODE])
def test_the_python_of_a_page_runs(page: str) -> None:
    path = next(path for path in WITH_CODE if path.name == page)
    run_page(page, path.read_text(encoding="utf-8"), budget=40)


def test_citation_and_changelog_have_the_version() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert newest is not None
    assert cited[1] == newest[1] == dc.__version__


def test_the_page_of_observers_has_every_method() -> None:
    assert "observers.md" in PAGES
    page = (DOCS / "observers.md").read_text(encoding="utf-8")
    for method in (name for name in vars(Observer) if not name.startswith("_")):
        assert f"| `{method}(" in page
