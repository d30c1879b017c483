"""The forms that are listed are those that there are: each can be loaded, no other can, and docs name them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepcanon.core import DeepcanonError
from deepcanon.data import Dataset, load_data
from deepcanon.data.load import entries
from deepcanon.data.transforms.form_list import FORM_LIST, Form, forms_of
from deepcanon.data.transforms.forms import FORMS, in_form

EMBEDDED = [name for name, entry in entries().items() if not entry.remote.files]
WRITTEN = {"bpe=512": "bpe=300", "domains=A/B": "domains=0/1"}
"""Suffixes that are listed as patterns, or are slow to make, and others of their form."""


def has(data: Dataset[Any], form: Form) -> bool:
    """Whether these data have this form; anything but a sentence is raised."""
    two_classes = data.sizes.get("classes") == 2
    written = "domains" if form.suffix == "domains=A/B" and two_classes else WRITTEN.get(form.suffix, form.suffix)
    try:
        load_data(f"{data.name}:{written}") if form.of in ("a CSV file", "a folder") else in_form(data, written)
    except DeepcanonError:
        return False
    return True


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "text" else []) for name in EMBEDDED]
)
def test_data_have_the_forms_that_are_listed_for_them_and_no_others(name: str) -> None:
    entry = entries()[name]
    data = load_data(name)
    assert [form for form in FORM_LIST if has(data, form)] == [*forms_of(name, entry.kind, entry.sizes)]


def test_every_form_of_images_and_videos_is_listed() -> None:
    for kind in ("images", "videos"):
        assert [form.suffix for form in FORM_LIST if kind in form.of.split(", ")] == [*FORMS]


def test_forms_of_files_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{i % 5 + 1},{i % 3 + 1}\n" for i in range(40)))
    assert load_data(f"{tmp_path / 'rows.csv'}:raw", target="b").preprocessing["form"] == "raw"
    assert load_data(f"{tmp_path / 'rows.csv'}:ratings").kind == "ratings"
    of_files = {form.suffix for form in FORM_LIST if form.of in ("a CSV file", "a folder", "a graph in a file")}
    of_graphs = {"directed", "undirected", "plain", "links"}  # tests/data/graphs
    assert of_files == {"raw", "ratings", "text", "pairs", "images", "size=64", *of_graphs}  # of texts: tests/data/text


def test_the_page_on_data_names_every_form() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    missing = [form for form in FORM_LIST if f"| `{form.suffix}` | {form.of} | {form.gives} |" not in page]
    assert missing == []
