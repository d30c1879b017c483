"""A CSV file becomes columns of texts and numbers; what is none is refused with the place of the fault."""

import csv
import io
import math
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.tables import csv_file, csv_pieces
from deepcanon.data.tables.csv_cells import MISSING, number
from deepcanon.data.tables.csv_file import CsvFile, read, read_pieces


def file_with(folder: Path, content: str | bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts_of(file: CsvFile) -> dict[str, list[str]]:
    return {name: [file.text(row, name) for row in range(len(file))] for name in file.columns}


def lines_of(file: CsvFile) -> list[int]:
    return [file.line(row) for row in range(len(file))]


@pytest.mark.parametrize("name", ['"name, full"', ' "name, full"'])
def test_columns_have_names_and_texts(name: str, tmp_path: Path) -> None:
    file = read(file_with(tmp_path, f' age ,{name}\n3,"x ""y"""\n\n 4 ,"two\nlines"\r\n5,z'))
    assert texts_of(file) == {"age": ["3", "4", "5"], "name, full": ['x "y"', "two\nlines", "z"]}
    assert lines_of(file) == [2, 5, 6]
    assert len(file) == 3
    assert file.columns["age"].numeric
    assert not file.columns["name, full"].numeric
    assert file.numbers("age").tolist() == [3, 4, 5]
    assert file.numbers("name, full").tolist() == [math.inf] * 3


CELLS = (
    "1", "-2.5", "1e3", "+3", " 4 ", "", "NA", "nan", " na ", "-nan", "nan(1)", "inf", "1e400", "1_0", "0x1f", "٣", "a",
    "b c", "é", "x\0", '"q"', '"q ""r"""', '"m\nn"', '"1"', '"NA"', ' "s, t"',
    ' "s"', 'u"v', "\t", "\x1c5", "\u2003", '"', ",",
)  # fmt: skip
NAMES = ("c", " d ", '"e f"', '"two\nlines"')
ENDS = ("\n", "\r\n", "\r", "\n\n")


@st.composite
def tables(draw: st.DrawFn) -> list[str]:
    """The lines of a table, rarely with a cell too many."""
    width = draw(st.integers(1, 3))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=width, max_size=width))
    few = draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=4))
    cells = st.sampled_from(draw(st.sampled_from([CELLS, few, ("1", "2.5")])))
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), max_size=7))
    return [",".join(row) for row in [names, *rows, *draw(st.sampled_from([[], [], [["1"] * 4]]))]]


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    lines=tables(),
    end=st.sampled_from(ENDS),
    mark=st.sampled_from(["", "\ufeff"]),
    words=st.booleans(),
    piece=st.sampled_from([2**22, 2**22, 1, 3, 10, 30]),
)
def test_a_file_is_read_as_pythons_own_reader_reads_it(
    lines: list[str], end: str, mark: str, words: bool, piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The texts are those of ``csv.reader``, the numbers those of ``float``, to the last bit, in pieces of any size."""
    content = end.join(lines) + end
    path = file_with(tmp_path_factory.getbasetemp(), mark + content)
    reader = csv.reader(io.StringIO(content, newline=""), strict=True, skipinitialspace=True)
    try:
        (_, header), *rows = [(reader.line_num, record) for record in reader if record]
        names = [name.strip() for name in header]
        refused = (
            not rows or len(set(names)) < len(names) or not all(names) or {len(r) for _, r in rows} != {len(names)}
        )
    except (csv.Error, ValueError):
        refused = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "PEEK", 1)  # so that most is not foreseen
        patch.setattr(csv_pieces, "PIECE", piece)
        patch.setattr(csv_file, "RECORDS", 2)
        if refused:
            with pytest.raises(DataError):
                read(path)
            return
        file = read(path, names if words else ())
        _ = [file.column(name).coded for name in names]  # what is read again, is read in pieces, too
    told = [[text.strip() for text in record] for _, record in rows]
    bare = [["" if text.lower() in MISSING else text for text in record] for record in told]
    assert texts_of(file) == {name: [record[column] for record in bare] for column, name in enumerate(names)}
    assert lines_of(file) == [line for line, _ in rows]
    for name, texts in texts_of(file).items():
        different, codes = file.coded(name)
        assert [different[code] for code in codes] == texts
        assert different == tuple(dict.fromkeys(texts))
        values = [number(text) for text in texts]
        assert file.columns[name].numeric == all(
            value is not None for value, text in zip(values, texts, strict=True) if text
        )
        expected = [math.inf if value is None or math.isnan(value) else value for value in values]
        expected = [value if text else math.nan for value, text in zip(expected, texts, strict=True)]
        assert file.numbers(name).tobytes() == np.array(expected).tobytes()


def test_numbers_are_rounded_as_python_rounds_them(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    values = chance.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    values = values[np.isfinite(values)]
    middles = [f"{2**53 + k}.5" for k in range(200)] + [
        "9007199254740993",
        "2.4703282292062328e-324",
        "1.7976931348623159e308",
    ]
    texts = [*map(repr, values.tolist()), *(f"{value:.25g}" for value in values.tolist()), *middles]
    file = read(file_with(tmp_path, "x\n" + "\n".join(texts) + "\n"))
    assert file.numbers("x").tobytes() == np.array([float(text) for text in texts]).tobytes()


@pytest.mark.parametrize(
    ("content", "careful"),
    [
        ("a,b\n" + "1,x\n" * 50, False),
        ('a,b\n"1","x, y"\n' * 1 + '2,"x ""y"""\n' * 200, False),
        ("a,b\n" + "1,NA\n" * 150 + "x,2\n", False),
        ('a,b\n1, "x, y"\n', True),
    ],
)
def test_only_odd_files_are_read_by_python(
    content: str, careful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes reading fast is that Python goes through no cell of an ordinary file."""
    slow = Mock(wraps=csv_file._read_carefully)
    monkeypatch.setattr(csv_file, "_read_carefully", slow)
    assert len(read(file_with(tmp_path, content))) > 0
    assert slow.called == careful


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    """An index has no name in the files of pandas and R."""
    assert list(read(file_with(tmp_path, ",b,\n1,2,3\n")).columns) == ["column 1", "b", "column 3"]


def test_pieces_follow_each_other_and_name_lines_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_pieces, "PIECE", 64)
    lines = [f'{row},"two\nlines {row}"' for row in range(50)]
    pieces = list(read_pieces(file_with(tmp_path, "a,b\n" + "\n".join(lines) + "\n")))
    assert len(pieces) > 5
    assert [value for piece in pieces for value in piece.numbers("a").tolist()] == list(range(50))
    assert [text for piece in pieces for text in piece.texts("b")] == [f"two\nlines {row}" for row in range(50)]
    assert [line for piece in pieces for line in lines_of(piece)] == [3 + 2 * row for row in range(50)]
    ragged = file_with(tmp_path, "a,b\n" + "\n".join([*lines, "1,2,3"]) + "\n")
    with pytest.raises(DataError, match="line 102 has 3 values, but there are 2 columns"):
        list(read_pieces(ragged))
    damaged = file_with(tmp_path, b"a,b\n" + b"1,2\n" * 50 + b"3,\xe9\n" + b"1,2\n" * 50)
    with pytest.raises(DataError, match="byte 0xe9 at position 206"):
        read(damaged)


def test_a_zero_byte_swallows_no_line(tmp_path: Path) -> None:
    file = read(file_with(tmp_path, 'a\0,b\n"x",y\nu,v\n'))
    assert texts_of(file) == {"a\0": ["x", "u"], "b": ["y", "v"]}


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert list(read(file_with(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n")).columns) == ["a", "b"]


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "nan", "NULL", "None", "?"])
def test_missing_values_are_empty(text: str, tmp_path: Path) -> None:
    file = read(file_with(tmp_path, f"a,b\n1,{text}\n"))
    assert texts_of(file)["b"] == [""]
    assert np.isnan(file.numbers("b")).all()


def test_rows_are_selected_with_their_lines(tmp_path: Path) -> None:
    file = read(file_with(tmp_path, "a\n1\n2\n3\n")).rows(np.array([2, 0]))
    assert texts_of(file) == {"a": ["3", "1"]}
    assert file.numbers("a").tolist() == [3, 1]
    assert lines_of(file) == [4, 2]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty; its first line must name the columns"),
        ("\n\n", "is empty"),
        ("a,b\n", "names its columns but has no rows"),
        ("a,b\n1,2\n3\n", "line 3 has 1 values, but there are 2 columns"),
        ("a,b\n1,2,3\n", "line 2 has 3 values, but there are 2 columns"),
        ("a,b,a\n1,2,3\n", "two columns named 'a'"),
        (",column 1\n1,2\n", "two columns named 'column 1'"),
        ("a;b\n1;2\n", "separate its values by ';'; separate them by commas"),
        ("a\tb\n1\t2\n", r"separate its values by '\\t'"),
        (b"a,b\n1,caf\xe9\n", "is not UTF-8: byte 0xe9 at position 9; save it as UTF-8"),
        (b"\xef\xbb\xbfa,b\n" + b"1,2\n" * 9999 + b"\xe9", "is not UTF-8: byte 0xe9 at position 40003"),
        ("a,b\n" + "1,2\n" * 999 + "3\n", "line 1001 has 1 values, but there are 2 columns"),
        (f"a,b\n1,{'x' * 200_000}\n", "line 2: this is not CSV, field larger than field limit"),
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
