"""The report needs nothing but itself, holds every number, and shows what failed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deepcanon as dc
from deepcanon.comparison.exhibits import ACROSS
from deepcanon.comparison.job import run_jobs
from deepcanon.comparison.record import Comparison
from deepcanon.comparison.report import write_report
from deepcanon.comparison.tables import sections
from deepcanon.core import Blueprint
from deepcanon.core.toy import Toy

EMPTY = {"meta", "img", "br", "wbr", "line", "circle", "rect", "path", "polyline"}


class Page(HTMLParser):
    """Checks that every tag is closed in its order, and gathers what the page would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words += data


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small images in two classes: bright on the left, bright on the right."""
    folder = tmp_path_factory.mktemp("data") / "<pictures>"
    random = np.random.default_rng(0)
    for label, side in (("left", slice(0, 2)), ("right", slice(2, 4))):
        (folder / label).mkdir(parents=True)
        for number in range(60):
            pixels = random.integers(0, 100, size=(4, 4))
            pixels[:, side] += 120
            Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{number:02}.png")
    return folder


def made(
    out: Path, data: str, candidates: list[Blueprint], seeds: int = 1, epochs: int | None = None
) -> tuple[Comparison, Page, str]:
    comparison = run_jobs(candidates, data, out, seeds=seeds, epochs=epochs)
    text = write_report(comparison, candidates, out).read_text(encoding="utf-8")
    return comparison, Page(text), text


@pytest.mark.slow
def test_a_folder_of_images_gets_tables_for_each_form_and_pictures_inside_the_page(
    pictures: Path, tmp_path: Path
) -> None:
    small = {"hidden": (8,)}
    candidates = [
        Blueprint(dc.find("softmax_regression"), label="softmax_regression"),
        Blueprint(dc.find("vae"), small, label="vae"),
        Blueprint(dc.find("vae"), {**small, "likelihood": "bernoulli"}, label="vae:likelihood=bernoulli"),
        Blueprint(dc.find("gan"), small, label="gan"),
    ]
    comparison, page, text = made(tmp_path / "out", str(pictures), candidates)
    assert [(section.question, section.form) for section in sections(comparison)] == [
        ("classes", "plain"), ("densities", "binary"), ("densities", "dequantized"),
    ]  # fmt: skip
    assert all(place.startswith("data:image/png;base64,") for place in page.loads)
    assert len(page.loads) == 1 + (1 + 1) + (1 + 2)  # a confusion; test data and samples in each form
    width = re.search(r"\.gallery\.samples \{[^}]*minmax\(min\(100%, ([\d.]+)rem\)", text)
    assert width is not None
    assert 16 * float(width[1]) / ACROSS > 48, "pixels of the page that an image of a grid is wide"
    assert not re.search(r"https?://|@import|url\(", text)
    assert "<pictures>" not in text
    assert "&lt;pictures&gt;" in text
    for section in sections(comparison):
        for row in section.rows:
            for column in section.columns:
                assert column.write(row.mean(column)) in page.words
    bits = [entry["measured"]["likelihood"] for entry in comparison["runs"] if entry["measured"] is not None]
    assert [found is not None and found["bits"] is not None for found in bits] == [False, True, True, False]


def test_a_table_shows_all_seeds_failures_and_commands(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = np.random.default_rng(0).normal(size=(50, 3)) @ [[1, 2, 1], [0, 0.1, 0], [0, 0, 1]]
    path.write_text("a,b,c\n" + "".join(",".join(f"{value:.3f}" for value in row) + "\n" for row in rows))
    candidates = [
        Blueprint(Toy, label="Toy"),
        Blueprint(dc.find("gaussian"), label="gaussian"),
        Blueprint(dc.find("mlp"), label="mlp"),
    ]
    comparison, page, text = made(tmp_path / "out", str(path), candidates, seeds=2)
    assert "mlp learns from labeled examples" in page.words
    assert "gaussian gives the test data" in page.words
    assert f"deepcanon train gaussian --data {path} --seed 1 --threads 1" in page.words
    assert f"deepcanon evaluate {tmp_path / 'out' / 'Toy-plain' / 'seed-0'}" in page.words
    (section,) = sections(comparison)
    for row in section.rows:
        for measured in row.measured:
            assert measured["likelihood"] is not None
            assert section.columns[0].write(measured["likelihood"]["nats"]) in page.words
    assert "first two principal components" in page.words
    assert text.count("<svg") == 1 + 3 + 1  # the ladder; three clouds; one curve, for a Gaussian learns in one step
    assert "It is fitted in one step" in page.words
    assert "exact. One dot for each seed." in " ".join(page.words.split())
    assert "the exact value lies to the right" not in page.words  # the legend has what the chart has


def test_a_training_of_one_epoch_has_the_curve_of_its_training_loss(tmp_path: Path) -> None:
    """Of an ELBO, whose terms are other ones than the measure; a game, whose loss measures nothing, has no curve."""
    candidates = [Blueprint(dc.find(name), {"hidden": (4,)}, label=name) for name in ("vae", "gan")]
    _, page, _ = made(tmp_path / "out", "moons", candidates, epochs=1)
    assert "vae: training loss" in page.words
    assert "gan: training loss" not in page.words
    assert page.words.count("It was measured once: there is no curve.") == 1
    assert "One dot for each seed" not in page.words  # the only likelihood needs no chart


@pytest.mark.parametrize("scheme", ["prefers-color-scheme: dark", "max-width: 40rem"])
def test_the_page_suits_dark_rooms_and_small_screens(scheme: str) -> None:
    from deepcanon.comparison.report_page import HEAD

    assert f"@media ({scheme})" in HEAD
