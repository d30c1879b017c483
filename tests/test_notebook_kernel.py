"""A notebook with a real kernel: what users see who train in one."""

from __future__ import annotations

import os
import sys

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient, of deepcanon[dev]")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient, of deepcanon[dev]")
pytest.importorskip("ipykernel", reason="needs ipykernel, of deepcanon[dev]")

CELLS = [
    "import deepcanon as dc",
    "result = dc.fit(dc.models.MLP(64, 10), dc.load_data('digits'), epochs=30)",
    "result.model",
    "dc.load_data('karate').train.graph",
    "dc.microscope(result.model, dc.load_data('digits'))",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the client's own event loop
def test_a_real_kernel_displays_one_curve_and_what_ends_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    sheet = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    nbclient.NotebookClient(sheet, timeout=120, kernel_name="python3").execute()
    _, training, model, graph, microscope = ([dict(each) for each in cell.outputs] for cell in sheet.cells)
    (shown,) = [each for each in training if each["output_type"] == "display_data"]
    assert "step 300 of 300" in shown["data"]["text/plain"]
    assert "<polyline" in shown["data"]["text/html"]
    assert "<th>net.0</th><td>Linear</td><td>weight 256x64, bias 256</td>" in model[0]["data"]["text/html"]
    assert graph[0]["data"]["text/html"].count("<circle") == 34
    assert 'sandbox="allow-scripts"' in microscope[0]["data"]["text/html"]
