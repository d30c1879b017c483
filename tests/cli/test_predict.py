"""Predictions and evaluations of new rows and images from the command line, with the preprocessing of the training."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import deepcanon as dc

Call = Callable[..., Any]


def loaded(run: Path) -> Any:
    """The run's model, untyped, since a Model has no methods of its own."""
    return dc.load(run)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def houses(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows with numbers, categories and missing values of both."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        size, town = random.normal(100, 30), ["Ulm", "Bonn", ""][i % 3]
        rows.append({
            "size": "" if i % 7 == 3 else f"{size:.2f}",
            "town": town,
            "floor": str(random.integers(0, 9)),
            "price": f"{1000 * size + 5000 * len(town) + random.normal(0, 100):.1f}",
            "sold": "yes" if size > 100 else "no",
        })  # fmt: skip
    return rows


def features_by_hand(rows: list[dict[str, Any]], run: Path) -> Tensor:
    """The features of new rows, computed from what the run has saved, by a rule written here a second time."""
    saved = json.loads((run / "run.json").read_text())["data"]["preprocessing"]
    table = []
    for row in rows:
        values: list[float] = []
        for column in saved["columns"]:
            text = row[column["name"]]
            if column["kind"] == "category":
                values += [float(text == value) for value in column["values"]]
                assert text in column["values"]
            else:
                number = float(text) if text else column["median"]
                values.append((number - column["mean"]) / column["std"])
                if column["indicator"]:
                    values.append(float(not text))
        table.append(values)
    return torch.tensor(table, dtype=torch.float64).float()


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The rows without these columns, and the others in the opposite order."""
    return [{name: row[name] for name in reversed(row) if name not in names} for row in rows]


def test_new_rows_of_a_table_are_treated_as_the_training_rows_were(call: Call, tmp_path: Path) -> None:
    table = write(tmp_path / "houses.csv", without(houses(90, seed=0), "price"))
    run, out = tmp_path / "run", tmp_path / "out.csv"
    trained = call("train", "mlp", "--data", table, "--target", "sold", "--hidden", "8", "--epochs", "30", "--out", run)
    assert trained.code == 0, trained.stderr
    new = houses(20, seed=1)
    file = write(tmp_path / "new.csv", without(new, "sold"))
    answer = call("predict", run, "--data", file, "--out", out, "--json").json
    assert answer["rows"] == 20
    assert answer["columns"] == ["prediction", "probability_no", "probability_yes"]
    probabilities = loaded(run).predict(features_by_hand(new, run), how="mean")
    rows = read(out)
    assert len(rows) == 20
    written = torch.tensor([[float(row["probability_no"]), float(row["probability_yes"])] for row in rows])
    assert torch.equal(written, probabilities), "nine digits give every float32 back"
    assert [row["prediction"] for row in rows] == [("no", "yes")[i] for i in probabilities.argmax(1).tolist()]


def test_a_quantity_is_predicted_in_its_own_units(call: Call, tmp_path: Path) -> None:
    table = write(tmp_path / "houses.csv", without(houses(90, seed=0), "sold"))
    run, out = tmp_path / "run", tmp_path / "out.csv"
    words = ("--data", table, "--target", "price", "--hidden", "16", "--epochs", "150", "--out", run)
    std = np.std([float(row["price"]) for row in houses(90, seed=0)])
    for answer in (call("train", "mlp", *words), call("evaluate", run)):
        (said,) = [
            line for line in answer.stdout.splitlines() if "errors in the table are in units of the target's" in line
        ]
        assert float(said.split("'price', ")[1].split()[0]) == pytest.approx(std, rel=0.2)
    new = houses(20, seed=1)
    assert call("predict", run, "--data", write(tmp_path / "new.csv", without(new, "price")), "--out", out).code == 0
    target = json.loads((run / "run.json").read_text())["data"]["preprocessing"]["target"]
    standard = loaded(run).predict(features_by_hand(new, run), how="mean").double()
    expected = (standard * target["std"] + target["mean"]).flatten().tolist()
    predicted = [float(row["prediction"]) for row in read(out)]
    assert predicted == pytest.approx(expected, rel=1e-8)
    known = [(p, float(row["price"])) for p, row in zip(predicted, new, strict=True) if row["size"]]
    assert np.corrcoef(np.array(known).T)[0, 1] > 0.9


def test_rows_that_cannot_be_treated_are_named(call: Call, tmp_path: Path) -> None:
    rows = houses(60, seed=0)
    table, run = write(tmp_path / "houses.csv", rows), tmp_path / "run"
    call("train", "mlp", "--data", table, "--target", "sold", "--hidden", "4", "--steps", "1", "--out", run)
    new = houses(3, seed=1)
    wrong = write(tmp_path / "wrong.csv", [*new[:2], {**new[2], "size": "large"}])
    lacking = write(tmp_path / "lacking.csv", without(new, "floor"))
    for file, words in ((wrong, ("line 4", "'size'", "'large'")), (lacking, ("'floor'",))):
        answer = call("predict", run, "--data", file, "--out", tmp_path / "out.csv")
        assert answer.code == 2
        assert answer.stderr.count("\n") == 1
        assert all(word in answer.stderr for word in words)
        assert not (tmp_path / "out.csv").exists()
    unlabeled = write(tmp_path / "unlabeled.csv", without(new, "sold"))
    answer = call("evaluate", run, "--data", unlabeled)
    assert answer.code == 2
    assert "does not have the column 'sold'" in answer.stderr


def test_every_node_of_a_graph_is_predicted_and_a_graph_is_not_an_input_of_onnx(call: Call, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert call("train", "gcn", "--data", "karate", "--epochs", "2", "--out", run).code == 0
    assert "34 predictions of gcn are in" in call("predict", run, "--out", out).stdout
    batch = dc.load_data("karate").train
    said = loaded(run).predict(*batch.inputs).tolist()
    assert [row["prediction"] for row in read(out)] == [("Mr. Hi", "Officer")[label] for label in said]
    refused = call("export", run, "--to", tmp_path / "model.onnx")
    assert refused.code == 2
    assert refused.stderr.startswith("deepcanon: GCN takes a graph, and an ONNX file only tensors")


def test_a_data_set_is_predicted_on_its_test_split(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.csv"
    answer = call("predict", runs / "mlp", "--out", out)
    assert "360 predictions of mlp are in" in answer.stdout
    test = dc.load_data("digits").split("test")
    said = [int(row["prediction"]) for row in read(out)]
    assert said == loaded(runs / "mlp").predict(test.x).tolist()
    before = out.read_bytes()
    again = call("predict", runs / "mlp", "--data", "digits:binary", "--out", out)
    assert again.code == 2
    assert "is already there" in again.stderr
    assert out.read_bytes() == before
    assert call("predict", runs / "mlp", "--data", "digits:binary", "--out", out, "--overwrite").code == 0
    assert out.read_bytes() != before


def test_images_of_a_folder_suit_a_model_of_known_images(call: Call, runs: Path, tmp_path: Path) -> None:
    test = dc.load_data("digits").split("test")
    for place in range(8):
        folder = tmp_path / "images" / str(test.y[place].item())
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * test.x[place, 0]).round().byte().numpy()).save(folder / f"{place}.png")
    answer = call("evaluate", runs / "mlp", "--data", tmp_path / "images", "--json")
    assert answer.code == 0, answer.stderr
    gray = ((255 * test.x[:8]).round() / 255).clone()
    said = loaded(runs / "mlp").predict(gray)
    assert answer.json["test"]["accuracy"] == pytest.approx((said == test.y[:8]).float().mean().item())
    assert call("predict", runs / "mlp", "--data", tmp_path / "images", "--out", tmp_path / "out.csv").code == 0
    assert sorted(int(row["prediction"]) for row in read(tmp_path / "out.csv")) == sorted(said.tolist())
    (tmp_path / "images" / "ten").mkdir()
    unknown = call("evaluate", runs / "mlp", "--data", tmp_path / "images")
    assert unknown.code == 2
    assert "is a class that does not occur" in unknown.stderr
    Image.fromarray((255 * test.x[0, 0]).round().byte().numpy()).save(tmp_path / "images" / "ten" / "0.png")
    more = call("predict", runs / "mlp", "--data", tmp_path / "images", "--out", tmp_path / "more.csv", "--json")
    assert more.json["rows"] == 9, "to be predicted, an image need not be of a known class"


def test_predictions_of_images_name_their_files_and_say_what_was_left_out(
    call: Call, runs: Path, tmp_path: Path
) -> None:
    test, images = dc.load_data("digits").split("test"), tmp_path / "images"
    images.mkdir()
    for place, suffix in ((3, "png"), (1, "bmp"), (2, "png")):
        Image.fromarray((255 * test.x[place, 0]).round().byte().numpy()).save(images / f"{place}.{suffix}")
    (images / "notes.txt.bak").write_text("not an image")
    answer = call("predict", runs / "mlp", "--data", images, "--out", tmp_path / "out.csv")
    assert answer.code == 0, answer.stderr
    assert "also has files that are not images by their names, and were left out: 1." in answer.stdout
    rows = {row["file"]: row["prediction"] for row in read(tmp_path / "out.csv")}
    assert list(rows) == ["1.bmp", "2.png", "3.png"]
    one = call("predict", runs / "mlp", "--data", images / "2.png", "--out", tmp_path / "one.csv")
    assert one.code == 0, one.stderr
    assert [(row["file"], row["prediction"]) for row in read(tmp_path / "one.csv")] == [("2.png", rows["2.png"])]


def test_data_of_another_kind_are_refused(call: Call, runs: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", houses(40, seed=0))
    call("train", "softmax_regression", "--data", "moons", "--steps", "1", "--out", tmp_path / "moons")
    (tmp_path / "images").mkdir()
    for run, data, sentence in (
        (runs / "mlp", table, f"the model has learned from images; {table} gives rows of a table"),
        (tmp_path / "moons", tmp_path / "images", "the model has learned from points; "),
    ):
        answer = call("predict", run, "--data", data, "--out", tmp_path / "out.csv")
        assert answer.code == 2
        assert sentence in answer.stderr


def test_more_classes_than_the_model_predicts_are_refused(call: Call, tmp_path: Path) -> None:
    two = tmp_path / "two"
    for place in range(10):
        (two / "ab"[place % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), place, dtype=np.uint8)).save(two / "ab"[place % 2] / f"{place}.png")
    assert call("train", "mlp", "--data", two, "--hidden", "4", "--steps", "1", "--out", tmp_path / "run").code == 0
    answer = call("evaluate", tmp_path / "run", "--data", "digits")
    assert (answer.code, answer.stderr) == (2, "deepcanon: the model predicts 2 classes; digits has at least 10\n")


def test_what_a_model_cannot_do_is_said_with_what_it_can(call: Call, runs: Path, tmp_path: Path) -> None:
    for command, method, can in (("sample", "sample", "predict"), ("generate", "generate", "predict")):
        more = ("--out", tmp_path / "x.png") if command == "sample" else ()
        answer = call(command, runs / "mlp", *more)
        assert (answer.code, answer.stderr) == (2, f"deepcanon: mlp cannot {method}; it can {can}\n")
    answer = call("predict", runs / "vae", "--out", tmp_path / "x.csv")
    assert answer.stderr == "deepcanon: vae cannot predict; it can sample, log_prob, encode, decode, reconstruct\n"


def test_the_runs_own_file_is_found_from_any_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    write(home / "t.csv", without(houses(60, seed=0), "price"))
    monkeypatch.chdir(home)
    call("train", "mlp", "--data", "t.csv", "--target", "sold", "--hidden", "4", "--steps", "5", "--out", "run")
    trained = json.loads((home / "run" / "run.json").read_text())["results"]
    write(away / "t.csv", without(houses(50, seed=1), "price"))  # of the same name, but not the run's own
    for folder, words in (
        (home, ()),
        (home, ("--data", "t.csv")),
        (home, ("--data", "./t.csv")),
        (away, ()),
        (away, ("--data", "../home/t.csv")),
        (away, ("--data", home / "t.csv")),
    ):
        monkeypatch.chdir(folder)
        answer = call("evaluate", home / "run", *words, "--json")
        assert answer.code == 0, answer.stderr
        assert answer.json["train"] == trained["train"]
        assert answer.json["test"] == trained["test"]
    assert call("evaluate", home / "run", "--data", "t.csv", "--json").json["train"] == {}
    assert call("predict", home / "run", "--out", away / "out.csv", "--json").json["rows"] == 60


def test_the_runs_own_images_are_found_from_any_folder_in_their_form(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = dc.load_data("digits").train
    for place in range(40):
        folder = tmp_path / "home" / "imgs" / str(int(digits.y[place]) % 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * digits.x[place, 0]).round().byte().numpy()).save(folder / f"{place:02}.png")
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    call("train", "mlp", "--data", "imgs:binary", "--hidden", "4", "--steps", "5", "--out", "run")
    trained = json.loads(Path("run/run.json").read_text())["results"]
    monkeypatch.chdir(tmp_path / "away")
    for words in ((), ("--data", "../home/imgs:binary")):
        answer = call("evaluate", "../home/run", *words, "--json")
        assert answer.code == 0, answer.stderr
        assert answer.json["train"] == trained["train"]
    without = call("evaluate", "../home/run", "--data", "../home/imgs", "--json")  # they are read as they were
    assert without.json["train"] == trained["train"]
    assert call("predict", "../home/run", "--out", "out.csv", "--json").json["rows"] == 40


def test_to_predict_no_target_is_needed(call: Call, tmp_path: Path) -> None:
    rows, run = without(houses(60, seed=0), "price"), tmp_path / "run"
    table = write(tmp_path / "t.csv", rows)
    call("train", "mlp", "--data", table, "--target", "sold", "--hidden", "4", "--steps", "5", "--out", run)
    written = []
    for sold in ("yes", "maybe", "", "?"):
        new = write(tmp_path / "new.csv", [rows[0], {**rows[1], "sold": sold}, rows[2]])
        answer = call("predict", run, "--data", new, "--out", tmp_path / "out.csv", "--overwrite")
        assert answer.code == 0, answer.stderr
        written.append(read(tmp_path / "out.csv"))
    assert len(written[0]) == 3
    assert all(each == written[0] for each in written)
    write(tmp_path / "new.csv", [{**rows[0], "sold": "maybe"}])
    assert "'maybe' does not occur" in call("evaluate", run, "--data", tmp_path / "new.csv").stderr
