import os
from pathlib import Path
from typing import IO

import pytest

from deepcanon.core import UsageError
from deepcanon.pictures import style


def test_colors_are_distinct_however_many() -> None:
    for count in (1, 2, 10, 11, 40):
        assert len(set(style.colors(count))) == count


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_a_picture_is_written_in_the_format_of_its_name(tmp_path: Path, name: str, magic: bytes) -> None:
    path = style.save(style.new_figure(1, 1), tmp_path / "deeper" / name)
    assert path.read_bytes().startswith(magic)
    assert os.listdir(path.parent) == [name]


def test_another_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"png, svg, pdf; 'a\.gif' ends in none"):
        style.save(style.new_figure(1, 1), tmp_path / "a.gif")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_picture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    figure = style.new_figure(1, 1)

    def half_written(target: IO[bytes], **options: str) -> None:
        target.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", half_written)
    with pytest.raises(OSError, match="disk full"):
        style.save(figure, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.png"]


def test_a_saved_figure_is_emptied(tmp_path: Path) -> None:
    figure = style.new_figure(1, 1)
    figure.add_subplot()
    style.save(figure, tmp_path / "a.png")
    assert figure.axes == []
