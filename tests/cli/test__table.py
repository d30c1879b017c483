"""Tables and paragraphs keep their words whole in a terminal of any width."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepcanon.cli._table import lay_out, paragraph

WORDS = st.text(alphabet="abcdefghij", min_size=1, max_size=12)
CELLS = st.lists(WORDS, max_size=8).map(" ".join)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(st.lists(WORDS, min_size=n, max_size=n), st.lists(st.lists(CELLS, min_size=n, max_size=n)))
    ),
    st.integers(20, 120),
)
def test_words_stay_whole_and_lines_within_the_width(table: tuple[list[str], list[list[str]]], width: int) -> None:
    columns, rows = table
    lines = lay_out(columns, rows, numbers=columns[1:2], width=width)
    assert all(len(line) <= width for line in lines)
    labels = {f"{column}:" for column in columns}
    shown = {word.rstrip(";") for line in lines for word in line.split() if not word.startswith("─")}
    given_words = {word for row in rows for cell in row for word in cell.split()}
    assert given_words <= shown <= given_words | set(columns) | labels


def test_columns_of_one_name_both_stand_below_their_row() -> None:
    lines = lay_out(["run", "text", "text"], [("mlp", "one " * 9, "two " * 9)], width=30)
    assert {"one", "two"} <= {word for line in lines for word in line.split()}


def test_a_word_that_is_wider_than_the_terminal_stays_whole() -> None:
    path = "/a/folder/" + "x" * 50
    assert any(path in line for line in lay_out(["run", "steps"], [(path, "3")], width=30))
    assert path in paragraph(f"The run is in {path}, its pictures too.", 30)


def test_without_a_width_every_row_is_one_line() -> None:
    assert len(lay_out(["a", "b"], [("x " * 200, "1")])) == 3
    assert paragraph("x " * 200, None) == "x " * 200


def test_what_has_no_room_stands_below_its_row() -> None:
    rows = [("digits", "images of digits by hand", "in a folder of its own", "12")]
    lines = lay_out(["data", "what", "where", "count"], rows, numbers=["count"], width=36)
    assert [line.strip() for line in lines if line.startswith("    ")] == [
        "what: images of digits by hand",
        "where: in a folder of its own",
    ]


def test_numbers_that_have_no_room_share_a_line() -> None:
    columns = ["run", *(f"measure {k}" for k in range(6))]
    lines = lay_out(columns, [("mlp", *"012345")], numbers=columns[1:], width=40)
    assert max(map(len, lines)) <= 40
    assert "measure 0: 0; measure 1: 1" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(("text", "lines"), [("a\n\nb", ["a", "", "b"]), ("", [""]), ("    x", ["    x"])])
def test_lines_of_a_paragraph_stay_lines(text: str, lines: list[str]) -> None:
    assert paragraph(text, 20).split("\n") == lines
