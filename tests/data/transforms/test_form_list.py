"""The forms that are listed are those that there are: each can be loaded, no other can, and docs name them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepcanon.core import DeepcanonError
from deepcanon.data import load_data
from deepcanon.data.load import entries
from deepcanon.data.transforms.form_list import FORM_LIST, forms_of
from deepcanon.data.transforms.forms import FORMS

EMBEDDED = [name for name, entry in entries().items() if not entry.remote.files]
WRITTEN = {"bpe=512": "bpe=300", "domains=A/B": "domains=0/1"}
"""Suffixes that are listed as patterns, or are slow to make, and others of their form."""


def has(name: str, suffix: str) -> bool:
    """Whether these data have this form; anything but a sentence is raised."""
    two_classes = entries()[name].sizes.get("classes") == 2
    written = "domains" if suffix.startswith("domains") and two_classes else WRITTEN.get(suffix, suffix)
    try:
        return bool(load_data(f"{name}:{written}").name)
    except DeepcanonError:
        return False


@pytest.mark.parametrize("name", EMBEDDED)
def test_data_have_the_forms_that_are_listed_for_them_and_no_others(name: str) -> None:
    entry = entries()[name]
    listed = [form.suffix for form in forms_of(entry.kind, entry.sizes)]
    assert [form.suffix for form in FORM_LIST if has(name, form.suffix)] == listed


def test_every_form_of_images_is_listed() -> None:
    assert [form.suffix for form in FORM_LIST if form.of == "images"] == [*FORMS]


def test_forms_of_files_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{i % 5 + 1},{i % 3 + 1}\n" for i in range(40)))
    assert load_data(f"{tmp_path / 'rows.csv'}:raw", target="b").preprocessing["form"] == "raw"
    assert load_data(f"{tmp_path / 'rows.csv'}:ratings").kind == "ratings"
    assert {form.suffix for form in FORM_LIST if form.of in ("a CSV file", "a folder")} == {"raw", "ratings", "size=64"}


def test_the_page_on_data_names_every_form() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    missing = [form for form in FORM_LIST if f"| `{form.suffix}` | {form.of} | {form.gives} |" not in page]
    assert missing == []
