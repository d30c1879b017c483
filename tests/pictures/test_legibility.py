"""What cannot be read is found: words cut off, words and legends over each other."""

from matplotlib.figure import Figure

from deepcanon.pictures.legibility import faults


def plain() -> Figure:
    return Figure(figsize=(4, 3), dpi=100)


def test_a_figure_without_faults_has_none() -> None:
    figure = Figure(figsize=(4, 3), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label="line")
    axes.set(title="title", xlabel="x", ylabel="y")
    axes.legend()
    assert faults(figure) == []


def test_words_that_are_cut_off_are_found() -> None:
    figure = plain()
    figure.suptitle("a title that is far too long for such a small figure to show")
    figure.add_subplot().text(0.9, 0.5, "beyond the edge of all")
    assert faults(figure) == [
        "'a title that is far too long for such a small figure to show' is cut off",
        "'beyond the edge of all' is cut off",
    ]


def test_titles_over_each_other_are_found() -> None:
    figure = plain()
    figure.suptitle("above", y=0.91)
    figure.add_subplot().set_title("above")
    assert "'above' and 'above' collide" in faults(figure)


def test_titles_that_collide_are_found() -> None:
    figure = plain()
    for axes in figure.subplots(1, 2):
        axes.set_title("a title of some length", loc="left")
    assert any("collide" in fault for fault in faults(figure))


def test_tick_labels_that_collide_are_found() -> None:
    figure = plain()
    figure.add_subplot().set_xticks(range(8), [f"a long name {i}" for i in range(8)])
    assert "the tick labels 'a long name 0' and 'a long name 1' collide" in faults(figure)


def test_legends_over_bars_and_words_are_found() -> None:
    for words in (False, True):
        figure = plain()
        axes = figure.add_subplot()
        if words:
            axes.plot([], [], label="line")
            axes.text(0.5, 0.5, "hidden", ha="center", va="center", transform=axes.transAxes)
        else:
            axes.bar([0, 1, 2], [3, 3, 3], label="bars")
        axes.legend(loc="center")
        wanted = "hides 'hidden'" if words else "hides a bar"
        assert any(fault.endswith(wanted) for fault in faults(figure))
