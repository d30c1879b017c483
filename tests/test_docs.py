"""The examples of the documentation run, and say what they give."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import deepcanon as dc
from deepcanon.train import Observer
from docs.engine import staging
from docs.engine.cells import cells, run_page
from tests.written_commands import commands, fault

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


@pytest.mark.slow
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


def test_every_command_that_is_written_has_what_it_names() -> None:
    written = {(page, line) for page, text in staging.texts().items() for line in commands(text)}
    assert len(written) > 200
    assert [(page, line, wrong) for page, line in sorted(written) if (wrong := fault(line)) is not None] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("deepcanon trian mlp", "no command trian"),
        ("deepcanon train mlpp --data D", "no model 'mlpp'"),
        ("deepcanon train mlp --hiden 3", "takes no --hiden"),
        ("deepcanon train lora --model gtp --rank 8", "no model 'gtp'"),
        ("deepcanon compare vae realnpv --data moons --out c", "no model 'realnpv'"),
        ("deepcanon sample RUN --guidence 2", "has no --guidence"),
        ("deepcanon doctor vae --data digist", "no data 'digist'"),
        ("deepcanon study gamess", "no study 'gamess'"),
        ("deepcanon study games --sedes 3", "study has no --sedes"),
        ("deepcanon insight landscape mlp --hiden 3", "takes no --hiden"),
    ],
)
def test_a_misspelled_command_is_seen_in_a_text(line: str, said: str) -> None:
    assert commands(f"Type `{line}`.\n\n```sh\n{line}\n```\n\n```{{code-cell}} sh\n{line}\n```\n") == [line, line]
    assert said in (fault(line) or "")


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
