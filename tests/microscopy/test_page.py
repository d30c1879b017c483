"""The page opens by itself in a browser, without an error, and answers a click with an edge's numbers."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.microscope import microscope
from deepcanon.microscopy.page import as_data, as_page
from deepcanon.questions import microscope as dc_microscope

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to open the page")

WATCH = "<script>window.faults = []; addEventListener('error', (e) => faults.push(e.message));</script>"
TELL = """<script>
const told = {};
const tell = (name, value) => (told[name] = value);
try { %s } catch (error) { faults.push(String(error)); }
const output = document.createElement("output");
Object.assign(output, { id: "told", textContent: JSON.stringify({ ...told, faults }) });
document.body.append(output);
</script>"""
CLICK = """
const line = document.querySelector('[data-edges="%d"] .line');
const middle = line.getPointAtLength(line.getTotalLength() * 0.9).matrixTransform(line.getScreenCTM());
document.elementFromPoint(middle.x, middle.y).dispatchEvent(new MouseEvent("click", { bubbles: true }));
tell("panel", document.getElementById("panel").textContent);
"""


@pytest.fixture(scope="module")
def graph() -> ComputeGraph:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    return microscope(net, torch.randn(2, 2), lambda y: y.square().mean(), title="</script><b>tiny & small")


@pytest.fixture(scope="module")
def deep() -> ComputeGraph:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return microscope(nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), torch.randn(1, 6, 16))


def in_browser(page: str, script: str, tmp_path: Path) -> dict[str, Any]:
    """What a script tells of the page, opened in headless Chromium from a file."""
    assert CHROMIUM is not None
    file = tmp_path / "page.html"
    file.write_text(page.replace("<style>", f"{WATCH}<style>", 1).replace("</body>", TELL % script + "</body>"))
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--dump-dom"]
    seen = subprocess.run(
        [*command, f"--user-data-dir={tmp_path}/profile", file.as_uri()], capture_output=True, text=True, timeout=600
    )
    found = re.search(r'<output id="told">(.*?)</output>', seen.stdout, re.DOTALL)
    assert found is not None, seen.stderr[-2000:]
    told: dict[str, Any] = json.loads(html.unescape(found[1]))
    return told


def test_the_page_loads_nothing_and_holds_all(graph: ComputeGraph) -> None:
    page = as_page(graph)
    assert re.findall(r"(?:src|href)=", page) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []
    assert "<b>tiny" not in page
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1]) == json.loads(json.dumps(as_data(graph)))


def test_the_file_is_written_by_its_ending(graph: ComputeGraph, tmp_path: Path) -> None:
    data = json.loads(graph.save(tmp_path / "graph.json").read_text())
    assert len(data["edges"]) == len(graph.edges)
    assert data["edges"][0]["verdict"]["status"] == "agrees"
    assert graph.save(tmp_path / "graph.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.html", "graph.json"]
    with pytest.raises(UsageError, match=r"graph.png must end in .html or .json"):
        graph.save(tmp_path / "graph.png")


@pytest.mark.slow
@browser
def test_a_click_on_an_edge_shows_its_numbers(graph: ComputeGraph, tmp_path: Path) -> None:
    edge = graph.out_of(graph.find("0.weight"))[0]
    told = in_browser(as_page(graph), CLICK % edge.id, tmp_path)
    assert told["faults"] == []
    panel = told["panel"].replace("−", "-")  # noqa: RUF001
    assert "0.weight → 0: linear" in panel
    assert "✓ agrees" in panel
    assert edge.delta is not None
    for number in (*edge.value.ravel(), *edge.delta.ravel()):
        assert f"{number:.4g}" in panel
    assert "δb = δyᵀ a" in panel


@pytest.mark.slow
@browser
def test_steps_let_values_appear_and_then_deltas(graph: ComputeGraph, tmp_path: Path) -> None:
    script = """
    const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const labels = (kind) => [...document.querySelectorAll(`.edge:not(.ahead) .${kind}`)];
    const shown = (kind) => labels(kind).filter((label) => label.textContent).length;
    const counts = [];
    press("Home");
    for (let i = 0; i <= 20; i++) { counts.push([shown("value"), shown("delta")]); press("ArrowRight"); }
    tell("counts", counts);
    """
    told = in_browser(as_page(graph), script, tmp_path)
    assert told["faults"] == []
    operations = sum(node.op not in ("input", "parameter") for node in graph.nodes)
    counts = told["counts"]
    assert counts[0] == [5, 0]  # what comes from outside
    assert counts[operations] == [len(graph.edges), 0]
    assert counts[-1] == [len(graph.edges), len(graph.edges)]
    assert counts == sorted(counts)


@browser
@pytest.mark.slow
def test_a_transformer_of_twelve_layers_starts_closed_and_opens(deep: ComputeGraph, tmp_path: Path) -> None:
    page = as_page(deep)
    assert len(page) < 5_000_000
    script = """
    const count = () => document.querySelectorAll(".node").length;
    tell("closed", count());
    document.querySelector(".node.module").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    tell("one", count());
    document.getElementById("open").click();
    tell("all", count());
    """
    told = in_browser(page, script, tmp_path)
    assert told["faults"] == []
    assert told["closed"] <= 20
    assert told["closed"] < told["one"] < 60
    assert told["all"] == len(deep.nodes)


@pytest.mark.slow
@browser
def test_a_mismatching_delta_is_marked(tmp_path: Path) -> None:
    class Sampled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.normal(x, 1.0).square().sum()  # torch sends no delta through the mean

    told = in_browser(
        as_page(microscope(Sampled(), torch.ones(3))),
        "tell('marked', [...document.querySelectorAll('.edge.mismatch')].map((e) => e.dataset.edges));",
        tmp_path,
    )
    assert told == {"marked": ["0"], "faults": []}


COLLISIONS = """
setAll(true);
const boxes = [...document.querySelectorAll(".edge")].map((edge) => {
  const [, , value, delta] = edge.children;
  const found = [value, delta].filter((text) => text.textContent).map((text) => text.getBBox());
  if (!found.length) return null;
  return {
    left: Math.min(...found.map((b) => b.x)), right: Math.max(...found.map((b) => b.x + b.width)),
    top: Math.min(...found.map((b) => b.y)) + 2, bottom: Math.max(...found.map((b) => b.y + b.height)) - 2,
  };
}).filter(Boolean);
const nodes = drawing.nodes.map((node) => {
  const { x, y, width, height } = drawing.cells.get(node.key);
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
});
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
let [pairs, covered] = [0, 0];
boxes.forEach((box, i) => {
  pairs += boxes.slice(i + 1).filter((other) => meet(box, other)).length;
  covered += nodes.filter((node) => meet(box, node)).length;
});
tell("labels", boxes.length);
tell("pairs", pairs);
tell("covered", covered);
"""


@browser
@pytest.mark.slow
def test_labels_collide_neither_with_each_other_nor_with_nodes(tmp_path: Path) -> None:
    looked_at = dc_microscope("vae")
    told = in_browser(as_page(looked_at), COLLISIONS, tmp_path)
    assert told["faults"] == []
    assert told["labels"] > 40
    assert (told["pairs"], told["covered"]) == (0, 0)
