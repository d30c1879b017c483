"""Charts put values where they belong."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from deepcanon.comparison.charts import HEIGHT, LONGEST, WIDTH, cloud, growth, ladder, lines
from deepcanon.core.svg import Scale, spread

SVG = "{http://www.w3.org/2000/svg}"


def circles(chart: str, style: str) -> list[tuple[float, float]]:
    tree = ET.fromstring(chart)
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in tree.iter("circle") if c.attrib["class"] == style]


def test_a_scale_maps_ends_to_ends() -> None:
    scale = Scale(-2, 6, 100, 20)
    assert (scale(-2), scale(6), scale(2)) == (100, 20, 60)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-19.3, -18.7), (1e-6, 2e-6), (10.0, 90000.0)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    ticks = Scale(low, high, 0, 1).ticks()
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)


def test_a_range_is_never_empty() -> None:
    for values in ([0.0], [3.0, 3.0], [-5.0]):
        low, high = spread(values)
        assert low < min(values) <= max(values) < high


def test_a_cloud_keeps_to_its_window() -> None:
    chart = cloud([(0.0, 0.0), (1.0, 1.0), (9.0, 0.0)], [(0.5, 0.5)], ((0.0, 0.0), (1.0, 1.0)))
    assert circles(chart, "dot") == [(10, WIDTH - 10), (WIDTH - 10, 10)]
    assert circles(chart, "behind") == [(WIDTH / 2, WIDTH / 2)]


def test_curves_stay_inside_their_chart() -> None:
    chart = lines([[(0.0, 1e6), *((float(i), 1.0 / (1 + i)) for i in range(1, 200))]], "seconds")
    (curve,) = (line.attrib["points"] for line in ET.fromstring(chart).iter("polyline"))
    places = [tuple(map(float, pair.split(","))) for pair in curve.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert places[0][1] < places[-1][1]  # high values stand high


def test_a_ladder_tells_kinds_apart_and_stands_in_order_of_value() -> None:
    chart = ladder(
        {"a<b": [(-3.0, "exact"), (-2.0, "exact")], "c": [(-2.5, "lower bound")], "d": [(-1, "estimate")]}, ""
    )
    exact, others = circles(chart, "dot"), circles(chart, "open")
    assert exact[0][0] < others[0][0] < exact[1][0] < others[1][0]
    assert exact[0][1] == exact[1][1] != others[0][1]
    assert len(re.findall('class="arrow"', chart)) == 1
    assert "a&lt;b" in chart


def test_long_names_of_a_ladder_stand_in_lines_inside_of_it() -> None:
    """Names that differ in their first word alone, as arguments of models are mostly the same."""
    ends = "likelihood=bernoulli,latent=50,hidden=200,importance_samples=50"
    chart = ladder({f"iwae:{ends}": [(-1.0, "exact")], f"vae:{ends}": [(-2.0, "exact")], "b": [(-3.0, "exact")]}, "")
    found = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)" text-anchor="end">([^<]*)<', chart)
    assert "".join(text for _, _, text in found) == f"iwae:{ends}vae:{ends}b"
    assert all(float(x) >= 7.5 * len(text) for x, _, text in found)
    heights = [float(y) for _, y, _ in found]
    assert all(after - before >= 14 for before, after in pairwise(heights))
    rows = [y for _, y in circles(chart, "dot")]
    assert rows[0] == pytest.approx((heights[0] + heights[2]) / 2 - 4, abs=8)


def test_a_ladder_writes_what_lies_far_below_and_still_shows_the_rest_apart() -> None:
    near = {"a": [(50.0, "exact")], "b": [(35.0, "exact")], "c": [(5.0, "lower bound")]}
    chart = ladder({**near, "d": [(-300_000.0, "exact"), (4.0, "exact")]}, "")
    places = circles(chart, "dot")
    assert places[0][0] - places[1][0] > 100
    assert len(places) == 3
    assert len(circles(chart, "open")) == 1
    assert "\N{LEFTWARDS ARROW} \N{MINUS SIGN}300,000<" in chart
    assert len(circles(ladder({"a": [(0.0, "exact")], "b": [(0.0, "exact")], "c": [(-9.0, "exact")]}, ""), "dot")) == 3


def test_named_curves_have_a_dot_for_each_seed_and_room_for_their_names() -> None:
    names = ["mlp", "HistGradientBoosting (scikit-learn)", "x" * 90]
    text = growth({name: [(10.0, [0.5, 0.4]), (20.0, [0.3])] for name in names}, "training examples")
    assert text.count("<circle") == 9
    assert text.count("<polyline") == 3
    assert ">HistGradientBoosting (scikit-learn)</text>" in text
    assert "x" * (LONGEST - 1) + "\N{HORIZONTAL ELLIPSIS}</text>" in text
    assert ">10</text>" in text
    assert ">20</text>" in text
    width = float(re.findall(r'viewBox="0 0 (\d+)', text)[0])
    starts = [float(x) for x in re.findall(r'class="name" x="(\d+)"', text)]
    assert all(start + 7 * min(LONGEST, len(name)) < width for start, name in zip(starts, names, strict=True))
    middles = sorted({float(x) for x in re.findall(r'<circle class="hue0" cx="([\d.]+)"', text)})
    assert len(middles) == 2
