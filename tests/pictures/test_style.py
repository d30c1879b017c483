import io
import os
from pathlib import Path
from typing import IO, Literal

import pytest
from matplotlib.figure import Figure

from deepcanon.core import UsageError
from deepcanon.pictures import style
from deepcanon.pictures.legibility import faults


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


def test_a_figure_stays_as_it_is_when_it_is_saved(tmp_path: Path) -> None:
    figure = style.new_figure(1, 1)
    axes = figure.add_subplot()
    style.save(figure, tmp_path / "a.png")
    assert figure.axes == [axes]


def test_a_picture_that_is_drawn_once_is_the_one_that_is_drawn_twice() -> None:
    def made() -> Figure:
        figure = style.new_figure(4, 3, "a title that is longer than this figure is wide, and broken into two lines")
        left, right = figure.subplots(1, 2)
        left.bar(range(8), [5.0] * 8, label="all as high")
        right.semilogy([1.0, 30.0, 4.0], label="a line")
        for axes in (left, right):
            style.dress(axes, "a title that is longer than its panel", "x", "y")
            style.legend(axes)
        return figure

    once, twice = io.BytesIO(), io.BytesIO()
    figure = made()
    before = figure.canvas
    figure.savefig(once, format="png", dpi=90)
    Figure.savefig(made(), twice, format="png", dpi=90)
    assert once.getvalue() == twice.getvalue()
    assert (figure.dpi, figure.canvas) == (150, before)


def test_titles_are_broken_where_they_would_run_out_or_into_the_next_panel() -> None:
    figure = style.new_figure(5, 3, "a long title of the whole figure " * 4)
    left, right = figure.subplots(1, 2)
    style.dress(left, "a title that is much longer than its panel is wide", "x")
    style.dress(right, "short")
    style.footnote(figure, "and many settings, " * 12)
    assert faults(figure) == []
    assert figure.get_suptitle().count("\n") > 0
    assert left.get_title("left").count("\n") == 1
    assert right.get_title("left") == "short"
    assert " ".join(figure.get_suptitle().split()) == ("a long title of the whole figure " * 4).strip()


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_legend_hides_no_bar(scale: Literal["linear", "log"]) -> None:
    axes = style.new_figure(4, 3).add_subplot()
    axes.bar(range(8), [5.0] * 8, label="all as high")
    axes.set_yscale(scale)
    style.legend(axes)
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    assert faults(figure) == []
    assert axes.get_ylim()[1] > 5.5
