"""A CSV file becomes columns of text; what is none is refused with the place of the fault."""

from pathlib import Path

import pytest

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.tables.csv_file import number, read


def file_with(folder: Path, content: str | bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_have_names_and_texts(tmp_path: Path) -> None:
    file = read(file_with(tmp_path, ' age , "name, full"\n3,"x ""y"""\n\n 4 ,"two\nlines"\r\n5,z'))
    assert file.columns == {"age": ["3", "4", "5"], "name, full": ['x "y"', "two\nlines", "z"]}
    assert file.lines == [2, 5, 6]
    assert len(file) == 3


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert list(read(file_with(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n")).columns) == ["a", "b"]


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "nan", "NULL", "None", "?"])
def test_missing_values_are_empty(text: str, tmp_path: Path) -> None:
    assert read(file_with(tmp_path, f"a,b\n1,{text}\n")).columns["b"] == [""]


def test_rows_are_selected_with_their_lines(tmp_path: Path) -> None:
    file = read(file_with(tmp_path, "a\n1\n2\n3\n")).rows([2, 0])
    assert file.columns == {"a": ["3", "1"]}
    assert file.lines == [4, 2]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty; its first line must name the columns"),
        ("\n\n", "is empty"),
        ("a,b\n", "names its columns but has no rows"),
        ("a,b\n1,2\n3\n", "line 3 has 1 values, but there are 2 columns"),
        ("a,b\n1,2,3\n", "line 2 has 3 values, but there are 2 columns"),
        ("a,b,a\n1,2,3\n", "two columns named 'a'"),
        (",b\n1,2\n", "column 1 has no name"),
        ("a;b\n1;2\n", "separate its values by ';'; separate them by commas"),
        ("a\tb\n1\t2\n", r"separate its values by '\\t'"),
        (b"a,b\n1,caf\xe9\n", "is not UTF-8: byte 0xe9 at position 9; save it as UTF-8"),
        ('a,b\n1,"2"x\n', "line 2: this is not CSV"),
        ('a,b\n1,"2\n', "this is not CSV"),
    ],
)
def test_what_is_no_table_is_refused(content: str | bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(file_with(tmp_path, content))
    assert "rows.csv" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*nowhere\.csv"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path)


def test_a_missing_column_is_named_with_its_neighbor(tmp_path: Path) -> None:
    file = read(file_with(tmp_path, "height,width\n1,2\n"))
    with pytest.raises(DataError, match=r"rows\.csv has no column 'heigth'; did you mean height\?"):
        file.column("heigth")
    with pytest.raises(DataError, match="has no column 'price'; there are height, width"):
        file.column("price")


def test_numbers_are_what_people_write_as_numbers() -> None:
    assert [number(text) for text in ("1", "-2.5", "1e3", ".5")] == [1, -2.5, 1000, 0.5]
    assert [number(text) for text in ("", "1_000", "0x1f", "1,5", "one")] == [None] * 5


@pytest.mark.parametrize("suffix", [".xlsx", ".ODS"])
def test_a_spreadsheet_is_answered_with_how_to_save_it(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"sheet{suffix}").touch()
    with pytest.raises(DataError, match="is a spreadsheet; save the sheet that is meant as CSV"):
        load_data(str(tmp_path / f"sheet{suffix}"))
