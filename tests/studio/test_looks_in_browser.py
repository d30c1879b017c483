"""Compare, Doctor, Microscope, Explain and latent in a real browser: what the page says is what the files say."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import deepcanon as dc
from deepcanon.diagnosis.health_report import Diagnosis, Report
from deepcanon.studio.studio import COMPUTING
from deepcanon.studio.views import compare, explain, latent, microscope
from tests.studio.conftest import PATIENCE, Served, settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"quiet": True, "evaluate": False, "pictures": False}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each kind that can be looked into, and a comparison."""
    root = tmp_path_factory.mktemp("looks") / "runs"
    dc.Run.train("cnn:hidden=4/6", "digits", out=root / "cnn", steps=20, **QUICK)
    dc.Run.train("vae:hidden=16,latent=2", "digits", out=root / "vae", steps=20, observers=[dc.Film(3)], **QUICK)
    dc.Run.train("gpt:layers=1,heads=2,embedding=8", "text", out=root / "gpt", steps=3, batch_size=4, **QUICK)
    dc.Run.train("mlp:hidden=4", "moons", out=root / "mlp", steps=3, lr=1e-7, **QUICK)
    x = torch.randn(240, 2, generator=torch.Generator().manual_seed(0))
    dc.compare(["ppca", "vae:hidden=4,latent=1"], x, root / "compared", seeds=2, budget=1, baselines="none")
    return root


def id_of(served: Served, name: str) -> str:
    return next(id for id, path in served.studio.runs().items() if path.name == name)


def read(words: str) -> float:
    """A number as the page writes it."""
    return float(words.replace("\N{MINUS SIGN}", "-").replace(",", "").removesuffix("%").strip())


def test_a_comparison_shows_every_seed_and_keeps_kinds_of_evidence_apart(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve_once(folder), "#/compare")
    page.locator("table.comparison").wait_for()
    runs = json.loads((folder / "compared" / "compare.json").read_text())["runs"]
    heads = page.locator("table.comparison thead th").all_text_contents()
    place = heads.index("training, s") - 1  # after the name, which is a row's head
    for row in page.locator("table.comparison tbody tr").all():
        label = row.locator("th").evaluate("node => node.firstChild.textContent")
        own = [entry["measured"]["seconds"] for entry in runs if entry["label"] == label]
        shown = row.locator("td").nth(place).evaluate("node => node.firstChild.textContent")
        assert read(shown) == pytest.approx(sum(own) / 2, abs=0.051)
        assert row.locator("th a").all_text_contents() == ["seed 0", "seed 1"]
    assert page.locator(".ladder-kind").all_text_contents() == ["exact", "lower bound"]
    assert page.locator(".ladder circle").count() == 4
    page.get_by_role("button", name="Show the whole report").click()
    page.frame_locator("iframe").locator("h1").wait_for()


def test_a_comparison_that_grows_is_followed(
    folder: Path, tmp_path: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    from deepcanon.comparison.record import write

    whole = compare.read(folder / "compared")
    write(tmp_path / "growing", {**whole, "status": "running", "runs": whole["runs"][:1], "differences": []})
    page = page_of(serve(tmp_path), "#/compare")
    page.get_by_text("1 of 4 trainings measured").wait_for()
    write(tmp_path / "growing", {**whole, "status": "running", "runs": whole["runs"][:3], "differences": []})
    shutil.copytree(folder / "mlp", tmp_path / "news")  # a run that changes makes the page look again
    page.get_by_text("3 of 4 trainings measured").wait_for()


def test_verdicts_are_shown_with_their_evidence_and_an_advice_can_be_followed(
    folder: Path, tmp_path: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    shutil.copytree(folder / "mlp", tmp_path / "mlp")
    curves = {"as it is": [1.0, 1.0, 1.0], EVIL: [1.0, 0.5, 0.2]}
    low = Diagnosis(
        "learning rate too low", {"rate": 1e-7, "curves": curves}, f"raise it {EVIL}", change={"lr": 0.125},
        check="learning_rate",
    )  # fmt: skip
    Report("mlp", "moons", [low], {"dead_units": {"share": 0.5}}, {"seeds": EVIL}, 1.5).save(tmp_path / "mlp" / "looks")
    served = serve(tmp_path)
    page = page_of(served, f"#/doctor?id={id_of(served, 'mlp')}")
    page.get_by_role("heading", name="learning rate too low").wait_for()
    assert "0.125" in page.locator(".change").inner_text()
    assert "1.00e\N{MINUS SIGN}7" in page.locator(".numbers-of").inner_text()
    assert EVIL in page.locator(".advice").inner_text()  # as text
    page.get_by_role("button", name="Apply and run again").click()
    page.get_by_text("Training mlp-again").wait_for()
    page.goto(f"{served.origin}/#/runs")
    line = page.locator("tr", has=page.get_by_role("link", name="mlp-again", exact=True))
    line.locator(".badge.finished").wait_for(timeout=4 * PATIENCE)  # a process of its own
    again, before = dc.Run(tmp_path / "mlp-again").info, dc.Run(tmp_path / "mlp").info
    assert again["settings"] == {**before["settings"], "lr": 0.125}
    assert again["model"] == before["model"]


def test_an_edited_number_moves_edges_in_the_graph(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(folder)
    page = page_of(served, f"#/microscope?id={id_of(served, 'mlp')}&split=test&number=5&parameter=net.2.bias&index=1")
    graph = page.frame_locator("iframe.graph")
    with COMPUTING:
        before = microscope.magnified(folder / "mlp", "test", [5])
    assert graph.locator("header .loss b").first.inner_text() == f"{before.loss:.6g}"
    assert graph.locator(".edge.moved").count() == 0
    page.get_by_label("New value", exact=True).fill("1.5")
    page.get_by_role("button", name="Set").click()
    words = page.locator(".moves").inner_text()
    with COMPUTING:
        found = microscope.edited(folder / "mlp", "test", [5], {"parameter": "net.2.bias", "index": 1, "value": 1.5})
    assert words.startswith(f"{len(found['moved'])} of {found['edges']} edges move")
    losses = [read(number) for number in re.findall(r"from (\S+) to (\S+);", words)[0]]
    assert losses == pytest.approx([found["loss_before"], found["loss_after"]], rel=1e-5)
    graph.locator(".edge.moved").first.wait_for()
    moved = {int(id) for names in graph.locator(".edge.moved").evaluate_all("all => all.map(e => e.dataset.edges)")
             for id in names.split()}  # fmt: skip
    assert {each["edge"] for each in found["moved"]} <= moved
    assert "value=1.5" in page.url


def test_grad_cam_stands_beside_its_control(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(folder)
    page = page_of(served, f"#/explain?id={id_of(served, 'cnn')}&split=test&number=7&random=1")
    titles = page.locator(".large.tile figcaption b")
    titles.nth(2).wait_for()
    with COMPUTING:
        numbers = explain.class_maps(folder / "cnn", "test", 7)["numbers"]
    assert titles.all_text_contents() == ["image", "Grad-CAM", "random weights"]
    said = page.locator(".large.tile figcaption").all_inner_texts()
    assert f"predicted {numbers['predicted_class'][0]}" in said[0]
    assert read(re.findall(r", (\S+) %", said[1])[0]) == pytest.approx(100 * numbers["probability"][0], rel=1e-2)
    page.get_by_text("random", exact=True).nth(1).wait_for()
    with COMPUTING:
        field = explain.fields(folder / "cnn", "test", 7)["numbers"]["layers"]
    rows = page.locator(".look table tbody tr")
    rows.first.wait_for()
    sizes = ["\N{MULTIPLICATION SIGN}".join(map(str, each["size"])) for each in field]
    assert [row.locator("td").nth(1).inner_text() for row in rows.all()] == sizes


def test_the_map_of_codes_is_decoded_where_it_is_touched_and_the_film_is_played(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(folder)
    page = page_of(served, f"#/explain?id={id_of(served, 'vae')}&split=test&first=3&second=9")
    area = page.locator(".drag")
    area.wait_for()
    page.wait_for_url(re.compile("point="))  # the middle of the codes is decoded, and in the address
    before = page.url
    area.click(position={"x": 200, "y": 150})
    page.wait_for_url(lambda address: address != before)
    point = [float(x) for x in re.findall(r"point=([^&]+)", page.url)[0].replace("%2C", ",").split(",")]
    pixels = page.locator(".decoded canvas").evaluate(
        "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).filter((_, n) => n % 4 === 0)"
    )
    with COMPUTING:
        [expected] = latent.decoded(folder / "vae", "test", [point])
    assert pixels == pytest.approx([255 * value for value in expected["values"]], abs=2)
    assert page.locator(".way figure").count() == 9
    image = page.locator(".frame-image")
    assert image.get_attribute("alt") == "samples at step 20"
    page.get_by_label("Frame").press("Home")
    page.locator("figcaption", has_text="samples at step 0 of 20 (frame 1 of 3)").wait_for()
    assert image.evaluate("image => image.naturalWidth") > 100


def test_the_bars_of_the_next_token_are_the_models_and_the_temperature_moves_them(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(folder)
    page = page_of(served, f"#/explain?id={id_of(served, 'gpt')}&prompt=def+&temperature=0.5")
    page.locator(".token-bar").first.wait_for()
    with COMPUTING:
        expected = explain.next_token(folder / "gpt", "def ", temperature=0.5)["tokens"]
    shown = [read(each) for each in page.locator(".token-bar .bar-value").all_text_contents()]
    assert shown == pytest.approx([each["heated"] for each in expected], rel=1e-2)
    page.get_by_label("Prompt").fill("def f")
    page.wait_for_url(re.compile("prompt=def[+]f"))
    page.locator(".attention-map").first.wait_for()


def test_every_look_fits_a_phone(
    folder: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(folder)
    page = page_of(served, phone=True, dark=True)
    for view in ("compare", *(f"explain?id={id_of(served, name)}" for name in ("cnn", "vae", "gpt")), "microscope"):
        page.goto(f"{served.origin}/#/{view}")
        page.locator(".look .room, table.comparison, iframe.graph").first.wait_for()
        settled(page)
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, f"{view} is {wide} pixels wide"
        assert page.locator(".refusal:visible").all_text_contents() == []
