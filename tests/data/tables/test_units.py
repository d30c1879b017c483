"""The units of a table from its saved preprocessing."""

from __future__ import annotations

from pathlib import Path

import torch

from deepcanon.core.table_units import ColumnUnits
from deepcanon.data import load_data
from deepcanon.data.tables.units import table_units


def written(folder: Path) -> Path:
    rows = [f"{20 + i % 30 if i % 7 else ''},{'Ulm' if i % 3 else 'Bonn'},{i % 11 - 4.5 * (i % 2)}" for i in range(60)]
    path = folder / "people.csv"
    path.write_text("\n".join(["age,city,cost", *rows]) + "\n")
    return path


def test_the_columns_of_a_file_are_found_behind_its_features(tmp_path: Path) -> None:
    data = load_data(str(written(tmp_path)), target="cost")
    table = table_units(data.preprocessing, 4)
    assert table.names == ("age", "city")
    assert table.places == [slice(0, 2), slice(2, 4)]  # an age with its indicator, and two categories
    assert table.features == data.sizes["features"] == 4
    ages, cities = (column.decode(data.train.x[:, at]) for column, at in zip(table.columns, table.places, strict=True))
    assert set(cities) == {"Bonn", "Ulm"}
    assert {"", 20.0, 49.0} <= {age if isinstance(age, str) else round(age, 4) for age in ages}
    assert [column.numeric for column in table.columns] == [True, False]
    slopes = table.columns[0].slopes(data.train.x[:, :2] * torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(
        slopes, torch.full_like(slopes, data.preprocessing["columns"][0]["std"]), rtol=1e-8, atol=0
    )
    saved = data.preprocessing["target"]
    assert (table.target, table.offset, table.scale) == ("cost", saved["mean"], saved["std"])


def test_classes_keep_their_names(tmp_path: Path) -> None:
    data = load_data(str(written(tmp_path)), target="city")
    table = table_units(data.preprocessing, 3, data.labels)
    assert (table.target, table.classes, table.scale) == ("city", ("Bonn", "Ulm"), 1.0)


def test_other_data_have_a_column_for_each_feature() -> None:
    for preprocessing in ({}, {"columns": ["film 1", "film 2"]}):  # that of ratings names its items alone
        table = table_units(preprocessing, 2, ("a", "b"))
        assert table.names == ("x1", "x2")
        assert table.classes == ("a", "b")
        assert table.columns[1].decode(torch.tensor([[2.5], [3.0]])) == [2.5, 3.0]


def test_the_slope_of_a_number_is_that_at_its_value() -> None:
    bent = ColumnUnits("price", 1, lambda part: (3.0 * (2.0 * part[:, 0] + 1.0).sinh()).tolist())
    x = torch.tensor([[-1.0], [0.0], [2.0]])
    torch.testing.assert_close(bent.slopes(x), 6.0 * (2.0 * x[:, 0].double() + 1.0).cosh(), rtol=1e-7, atol=0)
