"""Tables as users have them, the whole way: profile, training, comparison, evaluation, predictions read back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import UsageError
from deepcanon.data.tables import csv_file, csv_pieces
from tests.data.tables.test_profile import customers

Call = Callable[..., Any]


def cli(*words: object, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    table, run = customers(folder / "customers.csv"), folder / "run"
    words = ("--target", "churn", "--hidden", "8", "--epochs", "2", "--group", "customerID", "--column", "zip=number")
    answer = cli("train", "mlp", "--data", table, *words, "--class-weight", "balanced", "--out", run)
    assert answer.exit_code == 0, answer.stderr
    assert "Dropped: column 1 (it counts the rows), customerID (it says which rows belong together)" in answer.stdout
    return table, run


def test_predictions_come_with_ids_and_what_is_kept(trained: tuple[Path, Path], tmp_path: Path) -> None:
    table, run = trained
    out = tmp_path / "p.csv"
    answer = cli("predict", run, "--data", table, "--keep", "age,churn", "--out", out, "--json")
    assert answer.exit_code == 0, answer.stderr
    told = json.loads(answer.stdout.splitlines()[-1])
    names = ["column 1", "customerID", "age", "churn", "prediction", "probability_no", "probability_yes"]
    assert (told["rows"], told["columns"]) == (400, names)
    written, given = rows_of(out.read_text()), rows_of(table.read_text())
    assert [row["customerID"] for row in written] == [row["customerID"] for row in given]
    assert [row["age"] for row in written] == [row["age"] for row in given]
    shares = torch.tensor([[float(row["probability_no"]), float(row["probability_yes"])] for row in written])
    assert torch.allclose(shares.sum(1), torch.ones(400))
    assert [row["prediction"] for row in written] == [("no", "yes")[place] for place in shares.argmax(1).tolist()]
    assert dc.Run(run).predict(table, keep="age,churn")["age"] == [row["age"] for row in given]
    for words, problem in ((("--keep", "agee"), "did you mean age"), (("--keep", "age,churns"), "did you mean churn")):
        refused = cli("predict", run, "--data", table, *words, "--out", tmp_path / "q.csv")
        assert refused.exit_code == 2
        assert problem in refused.stderr
    with pytest.raises(UsageError, match="only rows of a table in a file have columns to keep"):
        dc.Run(run).predict(torch.zeros(2, *dc.Run(run).info["data"]["shape"]), keep="age")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv"]


def test_rows_come_from_standard_input_and_go_to_standard_output(trained: tuple[Path, Path], tmp_path: Path) -> None:
    table, run = trained
    wanted = dc.Run(run).predict(table)
    for words in (("--out", "-"), ()):
        piped = cli("predict", run, "--data", "-", *words, stdin=table.read_text())
        assert piped.exit_code == 0, piped.stderr
        assert [row["prediction"] for row in rows_of(piped.stdout)] == wanted["prediction"]
    bad = cli("predict", run, "--data", "-", stdin=table.read_text() + "1,2\n")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr == "deepcanon: standard input, line 402 has 2 values, but there are 9 columns\n"
    assert "--json prints to standard output" in cli("predict", run, "--data", table, "--json").stderr


def test_files_are_streamed_and_never_written_half(
    trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, run = trained
    out = tmp_path / "p.csv"
    whole = dc.Run(run).predict(table)
    monkeypatch.setattr(csv_pieces, "PIECE", 2000)
    seen: list[int] = []
    x = dc.data.tables.table.Table.x

    def watched(self: Any, file: csv_file.CsvFile) -> Any:
        seen.append(len(file))
        return x(self, file)

    monkeypatch.setattr(dc.data.tables.table.Table, "x", watched)
    assert cli("predict", run, "--data", table, "--out", out).exit_code == 0
    assert sum(seen) == 400
    assert max(seen) < 40, "what is in memory does not grow with the file"
    written = rows_of(out.read_text())
    assert [row["prediction"] for row in written] == whole["prediction"]
    np.testing.assert_allclose([float(row["probability_no"]) for row in written], whole["probability_no"], atol=1e-6)
    damaged = tmp_path / "damaged.csv"
    damaged.write_text(table.read_text() + "1,2\n")
    before = out.read_bytes()
    refused = cli("predict", run, "--data", damaged, "--out", out, "--overwrite")
    assert refused.exit_code == 2
    assert "line 402 has 2 values" in refused.stderr
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.csv", "p.csv"]


def test_new_categories_are_unknown_with_a_warning(trained: tuple[Path, Path], tmp_path: Path) -> None:
    table, run = trained
    new = tmp_path / "new.csv"
    new.write_text(table.read_text().replace(",yes,the", ",perhaps,the"))
    answer = cli("predict", run, "--data", new, "--out", tmp_path / "p.csv")
    assert answer.exit_code == 0
    assert answer.stderr == (
        "column 'member': 200 rows have values that the training data do not have (perhaps), taken as unknown\n"
    )
    assert "taken as unknown" in cli("evaluate", run, "--data", new).stderr


@pytest.mark.slow
def test_a_run_of_a_table_is_evaluated_resumed_compared_and_explained(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    table, run = trained
    results = json.loads((run / "run.json").read_text())["results"]
    told = json.loads(cli("evaluate", run, "--json").stdout.splitlines()[-1])
    assert told["test"] == results["test"]
    assert dc.Run(run).data.fingerprint() == dc.Run(run).info["data"]["fingerprint"]
    words = ("--data", table, "--target", "churn", "--split-by", "since", "--drop", "note")
    answer = cli("compare", "mlp:hidden=4", "softmax_regression", *words, "--out", tmp_path / "c", "--budget", "2")
    assert answer.exit_code == 0, answer.stderr
    assert "Dates: since (days, and the time of year and week)." in answer.stdout
    again = cli("compare", "mlp:hidden=4", "softmax_regression", *words, "--out", tmp_path / "c", "--budget", "2")
    assert again.exit_code == 0, again.stderr


def test_predictions_are_read_by_pandas(trained: tuple[Path, Path], tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas, of deepcanon[oracles]")
    table, run = trained
    dc.Run(run).predict(table, out=tmp_path / "p.csv")
    frame = pandas.read_csv(tmp_path / "p.csv")
    assert list(frame["customerID"]) == list(pandas.read_csv(table)["customerID"])
    assert set(frame["prediction"]) <= {"no", "yes"}


def houses(path: Path, rows: int = 300) -> Path:
    random = np.random.default_rng(0)
    size = random.uniform(50, 200, rows)
    price = 3000 * size + random.normal(0, 1, rows) * 200 * size
    path.write_text("size,price\n" + "".join(f"{s:.2f},{p:.1f}\n" for s, p in zip(size, price, strict=True)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp:hidden=16,head=gaussian", "bagging"])
def test_a_quantity_comes_with_its_spread_in_the_units_of_the_table(model: str, tmp_path: Path) -> None:
    table = houses(tmp_path / "houses.csv")
    run = dc.Run.train(model, table, target="price", out=tmp_path / "run", epochs=60, quiet=True, pictures=False)
    columns = run.predict(table)
    price = np.array([float(row["price"]) for row in rows_of(table.read_text())])
    mean = np.array(columns["prediction"])
    assert np.corrcoef(mean, price)[0, 1] > 0.9
    if model == "bagging":
        assert list(columns) == ["prediction", "spread"]
        parts = run.model.predictions(dc.data.tables.table.apply(table, run.info["data"]["preprocessing"]).x)  # type: ignore[operator]
        unit = run.info["data"]["preprocessing"]["target"]["std"]
        np.testing.assert_allclose(columns["spread"], parts.std(0, correction=0)[:, 0] * unit, rtol=1e-4)
        return
    assert list(columns) == ["prediction", "quantile_0.05", "quantile_0.5", "quantile_0.95"]
    low, middle, high = (np.array(columns[f"quantile_{level}"]) for level in (0.05, 0.5, 0.95))
    assert ((low < middle) & (middle < high)).all()
    assert 0.8 < np.mean((low < price) & (price < high)) <= 1
    np.testing.assert_allclose(middle, mean, atol=0.5 * price.std())
    if "gaussian" in model:  # whose quantiles are known: no draw, and no other row, has a say in them
        np.testing.assert_allclose(middle, mean, rtol=1e-5)
        np.testing.assert_allclose(high - mean, mean - low, rtol=1e-3)


def test_samples_of_a_table_with_dates_are_dates(tmp_path: Path) -> None:
    table = customers(tmp_path / "a.csv")
    run = dc.Run.train("gaussian", table, out=tmp_path / "run", quiet=True, pictures=False, drop="note")
    run.sample(50, out=tmp_path / "drawn.csv")
    drawn = rows_of((tmp_path / "drawn.csv").read_text())
    assert list(drawn[0]) == ["since", "age", "income", "zip", "member", "churn"]
    assert all(row["since"][:4] in ("2020", "2021", "2022") for row in drawn)


def test_dates_cannot_be_exported_with_the_table(trained: tuple[Path, Path], tmp_path: Path) -> None:
    _, run = trained
    answer = cli("export", run, "--to", tmp_path / "m.onnx")
    assert answer.exit_code == 1
    assert (
        "the column 'since' holds dates, which no operation of ONNX reads; --forward writes the network"
        in answer.stderr
    )
    assert not list(tmp_path.iterdir())


def test_the_own_file_without_its_form_is_the_own_file(tmp_path: Path) -> None:
    path = houses(tmp_path / "houses.csv", 60)
    run = dc.Run.train(
        "linear_regression", f"{path}:raw", target="price", out=tmp_path / "run", quiet=True, pictures=False
    )
    assert run.evaluate(str(path)) == run.evaluate(f"{path}:raw") == run.evaluate()
    other = houses(tmp_path / "other.csv", 60)
    assert run.evaluate(str(other))["train"] == {}
