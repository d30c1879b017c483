"""An ONNX file of a table takes the columns of the file and gives what ``predict`` gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import DeepcanonError, UsageError
from deepcanon.data.tables.csv_file import read
from deepcanon.data.tables.table import Table
from deepcanon.interop import onnx as our_onnx
from deepcanon.interop.raw_table import RawTable

CATEGORIES = ("color", "size")


def table(path: Path, target: str) -> Path:
    """A table of numbers and categories in turn, of which some are missing; one is called as an output of the file."""
    draw = np.random.default_rng(0)
    lines = [f"area,color,prediction,size,{target}"]
    for i in range(120):
        area, color, size = draw.normal(1e4, 300), ("red", "blue", "", "a,b")[i % 4], ("1", "x")[i % 2]
        age = "" if i % 7 == 0 else f"{draw.uniform(0, 50):.3f}"
        value = 3 * area + (500 if color == "red" else 0) + draw.normal(0, 30)
        answer = f"{value:.2f}" if target == "price" else ("yes" if value > 3e4 else "no")
        lines.append(f'{area:.2f},"{color}",{age},{size},{answer}')
    path.write_text("\n".join(lines) + "\n")
    return path


def columns(path: Path) -> dict[str, Any]:
    """The columns of a file as an ONNX file takes them."""
    file = read(path)
    texts = {name: [file.text(row, name) for row in range(len(file))] for name in file.columns}
    found = {name: np.array(column, dtype=object)[:, None] for name, column in texts.items()}
    numbers = {name: np.array([[float(text[0] or "nan")] for text in found[name]]) for name in ("area", "prediction")}
    return {**{name: found[name] for name in CATEGORIES}, **numbers}


@pytest.mark.parametrize("target", ["price", "ill"])
def test_features_are_those_of_the_table(target: str, tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", target)
    preprocessing = Table.from_json(dc.load_data(path, target=target).preprocessing)
    raw, given = RawTable(dc.models.MLP(9, 2), preprocessing), columns(path)
    numbers = torch.from_numpy(np.concatenate([given["area"], given["prediction"]], 1))
    codes = torch.tensor(
        [[column.values.index(given[column.name][row, 0]) for column in raw.categories] for row in range(len(numbers))]
    )
    assert torch.equal(raw.features(numbers, codes), preprocessing.x(read(path)))
    codes[3, 0] = -1
    assert raw.features(numbers, codes)[3, 1:5].tolist() == [0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "ill"])
def test_raw_rows_in_onnxruntime_give_what_predict_gives(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxscript", reason="needs deepcanon[onnx]")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs deepcanon[onnx]")
    path, file = table(tmp_path / "rows.csv", target), tmp_path / "model.onnx"
    run = dc.Run.train("mlp:hidden=8", path, target=target, out=tmp_path / "run", epochs=3, quiet=True)
    difference = run.export(file)
    assert difference is not None
    assert difference < 1e-6
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    given, wanted = columns(path), run.predict(path)
    assert {node.name for node in session.get_inputs()} == given.keys()
    names = [node.name for node in session.get_outputs()]
    outputs = session.run(None, given)
    assert len({str(value) for value in wanted["prediction"]}) > 1
    if target == "price":
        assert names == ["prediction_"]  # a column has the name already
        np.testing.assert_allclose(outputs[0][:, 0], wanted["prediction"], rtol=1e-6)
    else:
        assert names == ["prediction_", "probabilities"]
        assert outputs[0].tolist() == wanted["prediction"]
        shares = np.array([wanted["probability_no"], wanted["probability_yes"]]).T
        np.testing.assert_allclose(outputs[1], shares, atol=1e-6)
    strange = tmp_path / "strange.csv"
    strange.write_text(path.read_text().replace('"red"', '"pink"'))
    new, wanted = session.run(None, columns(strange)), run.predict(strange)
    assert "'color': 30 rows have values that the training data do not have (pink)" in capsys.readouterr().err
    if target == "price":
        np.testing.assert_allclose(new[0][:, 0], wanted["prediction"], rtol=1e-6)
    else:
        np.testing.assert_allclose(new[1][:, 0], wanted["probability_no"], atol=1e-6)
    missing = {**given, "color": np.where(given["color"] == "", "NA", given["color"])}
    for name, values in zip(names, session.run(None, missing), strict=True):
        assert np.array_equal(values, outputs[names.index(name)])
    about = session.get_modelmeta().custom_metadata_map
    assert about["model"] == "mlp"
    assert about["data"] == "rows.csv"
    assert json.loads(about["arguments"])["hidden"] == [8]
    assert json.loads(about.get("labels", "[]")) == ([] if target == "price" else ["no", "yes"])
    assert [column["name"] for column in json.loads(about["preprocessing"])["columns"]] == list(given_order(path))
    assert about["deepcanon"] == dc.__version__


def given_order(path: Path) -> list[str]:
    return list(read(path).columns)[:-1]


def test_what_cannot_be_written_with_its_preprocessing_may_be_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "rows.csv", "ill")
    run = dc.Run.train("mlp", path, target="ill", out=tmp_path / "r", steps=1, quiet=True)
    with pytest.raises(UsageError, match="weights have no forward pass; leave it out"):
        run.export(tmp_path / "weights.safetensors", forward=True)
    with pytest.raises(UsageError, match="a part is written alone already; leave it out"):
        run.export(tmp_path / "model.onnx", part="net", forward=True)

    taken: list[tuple[int, ...]] = []

    def fails(module: Any, inputs: Any) -> bytes:
        taken.extend(tuple(each.shape) for each in inputs)
        raise DeepcanonError(f"{module._get_name()} cannot be written as ONNX")

    monkeypatch.setattr(our_onnx, "_convert", fails)
    with pytest.raises(DeepcanonError, match="MLP cannot be written as ONNX; --forward writes the network alone"):
        run.export(tmp_path / "model.onnx")
    assert taken == [(4, 2), (4, 2)]
    with pytest.raises(DeepcanonError, match=r"MLP cannot be written as ONNX$"):
        run.export(tmp_path / "model.onnx", forward=True)
    assert taken[2:] == [(2, 9)], "of the network alone, features go in"
