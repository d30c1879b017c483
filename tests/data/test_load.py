"""Names find their data; what is described is what is loaded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from deepcanon.core import DataError, GraphBatch, LabeledPairs, UsageError
from deepcanon.data import describe_data, load_data, load_rows
from deepcanon.data.load import entries

EMBEDDED = (
    "adding", "bars-and-stripes", "block-model", "breast-cancer", "dates", "diabetes", "digits", "eight-gaussians",
    "graph-families", "houses", "inverted-digits", "ising", "karate", "moons", "moving-digits", "planted-edges",
    "planted-graphs", "planted-links", "poisson-counts", "ratings", "recall", "ring-of-cliques", "rings", "scenes",
    "series", "spots", "stories", "text", "two-domains", "waveform", "waves", "wine",
)  # fmt: skip
REMOTE = (
    "binarized-mnist", "cifar10", "cifar10-small", "cifar100", "etth1", "exchange-rate", "mutag", "proteins",
    "shakespeare", "m4-weekly", "movielens-100k",
    "fashion-mnist", "mnist", "uci:boston", "uci:concrete", "uci:energy", "uci:kin8nm", "uci:naval", "uci:power",
    "uci:protein", "uci:wine-red", "uci:yacht", "cora", "multi30k-de-en", "multi30k-en-de", "multi30k-en-fr",
    "multi30k-fr-en",
)  # fmt: skip
PARTS = ("train", "valid", "test")


def test_all_data_sets_are_found() -> None:
    assert tuple(entries()) == (*EMBEDDED, *REMOTE)


def test_descriptions_are_plain_and_say_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = {row["name"]: row for row in describe_data()}
    assert json.loads(json.dumps(rows)) == rows
    assert [name for name, row in rows.items() if not row["here"]] == list(REMOTE)
    assert rows["mnist"]["folder"] == "mnist"
    forms = ["binary", "spins", "dequantized", "levels", "labels=40", "votes=6", "domains=A/B"]
    assert [*rows["digits"]["forms"]] == forms
    assert [*rows["diabetes"]["forms"]] == []
    (tmp_path / "mnist").mkdir()
    for file in entries()["mnist"].remote.files:
        (tmp_path / "mnist" / file.name).touch()
    assert {row["name"]: row["here"] for row in describe_data()}["mnist"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_what_is_described_is_what_is_loaded(name: str) -> None:
    (row,) = [row for row in describe_data() if row["name"] == name]
    data = load_data(name)
    parts: list[Any] = [data.split(part) for part in PARTS]
    counts = [int(part.mask.sum()) if isinstance(part, GraphBatch) else len(part) for part in parts]
    if isinstance(data.train, LabeledPairs):
        counts = [part.weight for part in parts]
    assert counts == [row[part] for part in PARTS]
    assert (data.name, data.kind, dict(data.sizes), list(data.shape)) == (name, row["kind"], row["sizes"], row["shape"])
    assert all(tuple(part.x.shape[1:]) == data.shape for part in parts)
    if "features" in data.sizes:
        one = (
            data.train.x[0, 0] if data.kind in ("sequences", "series", "videos") else data.train.x[0]
        )  # a place, or a whole example
        assert data.sizes["features"] == one.numel()
    if "classes" in data.sizes:
        assert data.sizes["classes"] == len(data.labels) == int(data.train.y.max()) + 1
    assert json.loads(json.dumps(data.preprocessing)) == data.preprocessing
    assert data.source


@pytest.mark.parametrize("name", EMBEDDED)
def test_loading_twice_gives_the_same(name: str) -> None:
    torch.manual_seed(0)
    first = load_data(name)
    torch.rand(3)
    assert load_data(name).fingerprint() == first.fingerprint()


def test_loading_leaves_the_global_generators_alone() -> None:
    state = torch.get_rng_state()
    load_data("eight-gaussians")
    load_data("digits:dequantized")
    assert torch.equal(torch.get_rng_state(), state)


def test_unknown_names_are_answered_with_advice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there are no data 'digist'; did you mean digits\?"):
        load_data("digist")
    with pytest.raises(UsageError, match="there are no data 'zzz'; there are adding, bars-and-stripes, block-model"):
        load_data("zzz:binary")
    with pytest.raises(DataError, match=r"there is no file or folder .*nowhere"):
        load_data(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"there is no file .*nowhere\.csv"):
        load_data(str(tmp_path / "nowhere.csv"))
    (tmp_path / "a.dat").touch()
    with pytest.raises(DataError, match=r"a\.dat is neither a CSV file \(its name must end in \.csv\), Parquet"):
        load_data(str(tmp_path / "a.dat"))


def test_only_tables_have_a_target(tmp_path: Path) -> None:
    for name in ("digits", str(tmp_path)):
        with pytest.raises(UsageError, match=r"gives .*, without a target to choose; leave out the target 'label'"):
            load_data(name, target="label")


def test_a_path_may_hold_a_colon_and_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a:b.csv").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    monkeypatch.setenv("HOME", str(tmp_path))
    data = load_data(str(tmp_path / "a:b.csv"))
    assert dict(data.sizes) == {"features": 2}
    assert data.source == str(tmp_path / "a:b.csv")
    (tmp_path / "c.CSV").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    assert load_data("~/c.CSV").fingerprint() == data.fingerprint()


def test_new_rows_of_every_sort(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    data = load_data(str(tmp_path / "a.csv"))
    assert len(load_rows(str(tmp_path / "a.csv"), data.preprocessing)) == 10
    assert torch.equal(load_rows("digits:binary", {}).x, load_data("digits:binary").split("test").x)
    with pytest.raises(UsageError, match="for images"):
        load_rows(f"{tmp_path / 'a.csv'}:binary", data.preprocessing)
    with pytest.raises(UsageError, match="did you mean"):
        load_rows("digist", {})


@pytest.mark.slow
def test_importing_the_package_imports_no_library_of_a_single_data_set() -> None:
    script = (
        "import sys, deepcanon.data; from deepcanon.data.load import entries; entries();"
        "print([name for name in ('sklearn', 'networkx', 'PIL', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
