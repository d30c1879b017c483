"""The command ``data``: known data sets, and the profile of a file of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.tables.test_profile import customers

Call = Callable[..., Any]


def test_the_profile_of_a_file_is_shown(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    path = customers(tmp_path / "a.csv")
    answer = call("data", path, "--target", "churn", "--column", "zip=number", "--drop", "note,income")
    assert answer.code == 0, answer.stderr
    lines = answer.stdout.splitlines()
    said = " ".join(answer.stdout.split())
    assert "a.csv: 400 rows (280 train, 40 valid, 80 test); 2 numbers, 1 category, 1 date give" in said
    assert any(
        line.split() == ["member", "██", "boolean,", "2", "values:", "yes", "50", "%,", "no", "50", "%"]
        for line in lines
    )
    assert any("income" in line and "dropped: as you said" in line for line in lines)
    assert max(map(len, lines)) <= 110
    told = call("data", path, "--target", "churn", "--json").json
    assert told["rows"] == {"train": 280, "valid": 40, "test": 80}
    assert [column["name"] for column in told["columns"]][1:3] == ["customerID", "since"]
    assert {"name", "kind", "says", "picture", "missing", "features"} == told["columns"][0].keys()


@pytest.mark.parametrize(
    ("content", "words", "problem"),
    [
        ("", (), "is empty; its first line must name the columns"),
        ("a,b\n", (), "names its columns but has no rows"),
        ("a,b\n1,2\n", (), "has 1 example; at least 5 are needed"),
        ("a,b\n1,2\n3\n", (), "line 3 has 1 values, but there are 2 columns"),
        ("a,b,a\n1,2,3\n", (), "has two columns named 'a'"),
        (b"a,b\n1,caf\xe9\n", (), "is not UTF-8: byte 0xe9 at position 9"),
        ("a,b\n" + "1.5,x\n2.5,y\n" * 5, ("--target", "c"), "has no column 'c'"),
        ("a,b\n" + "1.5,x\n2.5,y\n" * 5, ("--column", "a=word"), "a column is given as NAME=number|category|date|drop"),
        ("a,b\n" + "".join(f"{i}.5,{'xy'[i % 2]}\n" for i in range(30)) + "many,x\n", (), "line 32, column 'a': "),
        ("a,b\n" + "".join(f"2024-01-{i + 1},1.5\n" for i in range(9, 30)) + "soon,2\n", (), "'soon' is none; mend it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["data", "train"])
def test_bad_files_end_in_a_sentence(
    content: str | bytes, words: tuple[str, ...], problem: str, command: str, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if command == "data":
        answer = call("data", path, *words)
    else:
        words = words if "--target" in words else (*words, "--target", "b")
        answer = call("train", "mlp", "--data", path, *words, "--out", tmp_path / "run")
    assert answer.code == 2
    assert problem in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [path]


def test_options_of_files_need_a_file(call: Call, tmp_path: Path) -> None:
    assert "--target says how a file is read; name the file" in call("data", "digits", "--target", "y").stderr
    assert "there is no file" in call("data", tmp_path / "none.csv").stderr
    (tmp_path / "a.txt").write_text("some words " * 200)
    answer = call("data", tmp_path / "a.txt")
    assert answer.code == 0
    assert "text" in answer.stdout
