"""Data frames are data: read as a file of their columns is, trained on, evaluated and predicted in one line each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv as arrow_csv

import deepcanon as dc
from deepcanon.core import DataError, UsageError
from deepcanon.core.reading import is_frame
from tests.data.tables.test_arrow_file import table


class Streamed:
    """A frame as any library has it that gives its columns as Arrow's."""

    def __init__(self, columns: pa.Table) -> None:
        self._columns = columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._columns.__arrow_c_stream__(requested_schema)


class Hugging:
    """A data set of Hugging Face, as far as it is looked at: features with the names of classes, rows as Arrow's."""

    def __init__(self, columns: pa.Table, **classes: list[str]) -> None:
        self._columns = columns
        self.column_names = columns.column_names
        self.features = {name: SimpleNamespace(names=names) for name, names in classes.items()}

    def with_format(self, form: str) -> pa.Table:
        assert form == "arrow"
        return self._columns

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("rows are read as Arrow's")


def test_a_frame_gives_what_a_csv_file_of_it_gives(tmp_path: Path) -> None:
    rows = table()
    arrow_csv.write_csv(rows, tmp_path / "rows.csv")
    wanted = dc.load_data(tmp_path / "rows.csv", target="price")
    for frame in (rows, Streamed(rows), Hugging(rows)):
        found = dc.data.of(frame, target="price")
        assert found.fingerprint() == wanted.fingerprint()
        assert (found.name, found.target) == ("data frame", "price")
    assert found.says == (
        "data frame gives rows of a table (8 features, 1 target, target 'price'): 42 to train, 6 to validate, "
        "12 to test."
    )


def test_classes_of_hugging_face_have_their_names() -> None:
    rows = pa.table({"x": np.arange(20.0), "label": [0, 1] * 10})
    data = dc.data.of(Hugging(rows, label=["cat", "dog"]), target="label")
    assert data.labels == ("cat", "dog")


def test_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas, of deepcanon[oracles]")
    frame = pandas.DataFrame({"a": np.arange(20) / 2, "c": pandas.Categorical(list("xyxy") * 5), "y": [0, 1] * 10})
    data = dc.data.of(frame, target="y")
    assert data.sizes == {"features": 3, "classes": 2}
    assert dc.data.of(frame[frame.a > 1.5], target="y").sizes == data.sizes  # an index without a name is no column


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="needs polars, of deepcanon[oracles]")
    frame = polars.DataFrame({"a": np.arange(20) / 2, "c": list("xyxy") * 5, "y": [0, 1] * 10})
    assert dc.data.of(frame, target="y").sizes == {"features": 3, "classes": 2}


def test_a_form_says_what_the_columns_are() -> None:
    ratings = pa.table({"user": list("aabbcc"), "item": list("xyxyxy"), "rating": [1, 2, 3, 4, 5, 1]})
    assert dc.data.of(ratings, form="ratings").kind == "ratings"
    texts = pa.table({"text": ["a b c d", "e f g h"] * 10, "y": [0, 1] * 10})
    assert dc.data.of(texts, form="text:bytes", target="y").kind == "sequences"
    assert dc.data.of(ratings).kind == "ratings"  # by the same rules as a CSV file
    longer = pa.table({"text": [f"it is the film number {row}" for row in range(20)], "y": [0, 1] * 10})
    assert dc.data.of(longer, target="y").kind == "sequences"
    assert dc.data.of(texts, form="pairs", text="text", target="y", name="mine").name == "mine:pairs"


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path) -> None:
    rows = table()
    run = dc.Run.train("mlp", rows, target="price", epochs=2, quiet=True, out=tmp_path / "run")
    assert run.evaluate(rows)["test"]["rmse"] > 0
    found = run.predict(Streamed(rows.drop(["price"])))
    arrow_csv.write_csv(rows, tmp_path / "rows.csv")
    assert found == run.predict(tmp_path / "rows.csv")
    with pytest.raises(UsageError, match="was trained on data given in Python; say which data to use now"):
        run.predict()
    weights = run.folder.read_weights()
    run.folder.weights.unlink()  # so that the run is not finished
    with pytest.raises(DataError, match="the data data frame are not those that"):
        dc.Run(tmp_path / "run").resume(table(61), quiet=True)
    again = dc.Run(tmp_path / "run").resume(rows, quiet=True).folder.read_weights()
    assert all(torch.equal(value, weights[name]) for name, value in again.items())
    with pytest.raises(DataError, match=r"^data frame, row 1, column 'size': a number was expected, got 'many'"):
        run.predict(rows.set_column(0, "size", [["many"] * len(rows)]))


def test_what_is_not_data_is_refused_with_what_is() -> None:
    for wrong in (object(), {"a": [1]}, 3):
        with pytest.raises(
            UsageError, match=r"data are a name, a file or folder, a data frame .* got (object|dict|int)$"
        ):
            dc.data.of(wrong)
    assert not is_frame({"train": table()})  # several splits are not one
    with pytest.raises(UsageError, match="or give a data frame"):
        dc.Run.train("mlp", np.zeros((5, 2)), target="y")
    with pytest.raises(DataError, match=r"^data frame: column 'a' holds list"):
        dc.data.of(pa.table({"a": [[1]] * 9}))
    with pytest.raises(DataError, match=r"^data frame has no column 'z'"):
        dc.data.of(table(), target="z")
    with pytest.raises(DataError, match=r"two columns named 'a'; every column needs a name of its own"):
        dc.data.of(pa.Table.from_arrays([pa.array(range(9))] * 2, ["a", "a"]))
    edges = pa.table({"source": ["a", "b"], "target": ["b", "a"]})
    with pytest.raises(UsageError, match=r"^the nodes of data frame are the path of a CSV file; got Table"):
        dc.Run.train("gcn", edges, nodes=table(), target="price")
