"""Every kind of file the whole way of a user: written, trained on, compared on, new rows predicted, read by pandas.

And the bad files: one sentence, exit code 2, and nothing half-written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Call = Callable[..., Any]

DAYS = [str(day) for day in np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]")]


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written into a folder, and what its predictions are."""

    write: Callable[[Path], None]
    model: str
    data: str
    reading: Sequence[object] = ()
    new: str = ""
    """The file with new rows; without one, the predictions are of the own file."""
    rows: int = 0
    """How many predictions there are."""
    columns: Sequence[str] = field(default=("prediction",))


def lines(path: Path, *rows: str) -> None:
    path.write_text("\n".join(rows) + "\n")


def table(folder: Path) -> None:
    draw = np.random.default_rng(0)
    head, rows = "customer_id,joined,age,plan,price,left", []
    for place in range(60):
        age = "" if place % 9 == 0 else f"{draw.integers(18, 80)}"
        left = "yes" if draw.random() < 0.3 else "no"
        rows.append(f"c{place},{DAYS[place % 50]},{age},{'abc'[place % 3]},{draw.lognormal(3, 2):.2f},{left}")
    lines(folder / "table.csv", head, *rows)
    lines(folder / "new.csv", head.removesuffix(",left"), *(row.rpartition(",")[0] for row in rows[:7]))


def reviews(folder: Path) -> None:
    texts = [f"the plot was {('good', 'bad')[i % 2]} and long {'again ' * (i % 4)}" for i in range(40)]
    lines(folder / "reviews.csv", "review,liked", *(f"{text},{('yes', 'no')[i % 2]}" for i, text in enumerate(texts)))
    lines(folder / "new.csv", "review", "a plot that nobody knows", "good")


def pairs(folder: Path) -> None:
    words = [("one", "uno"), ("two", "dos"), ("three", "tres"), ("four", "cuatro")]
    chosen = [(words[i % 4], words[i // 4 % 4]) for i in range(32)]
    lines(folder / "pairs.tsv", *(f"{a[0]} {b[0]}\t{a[1]} {b[1]}" for a, b in chosen))
    lines(folder / "new.tsv", "one two", "three one")


def series(folder: Path) -> None:
    rows = [
        f"{store},{day},{10 + step % 7 + place}" for place, store in enumerate("ab") for step, day in enumerate(DAYS)
    ]
    lines(folder / "sales.csv", "store,day,sold", *rows)


def graph(folder: Path) -> None:
    near = [(a, b) for a in range(30) for b in range(a) if a % 2 == b % 2 and (a + b) % 3 == 0]
    lines(folder / "edges.csv", "source,target", *(f"n{a},n{b}" for a, b in near))
    lines(
        folder / "nodes.csv",
        "id,size,topic",
        *(f"n{i},{i % 5},{('', 'x', 'y')[0 if i > 25 else 1 + i % 2]}" for i in range(30)),
    )


def links(folder: Path) -> None:
    graph(folder)
    lines(folder / "new.csv", "source,target", "n0,n2", "n1,n2", "n3,n9")


def many_graphs(folder: Path) -> None:
    (folder / "SET").mkdir()
    edges: list[str] = []
    owner: list[str] = []
    labels: list[str] = []
    for place in range(24):
        first = len(owner) + 1
        owner += [str(place + 1)] * 4
        labels.append(str(place % 2))
        steps = [(0, 1), (1, 2), (2, 3)] if place % 2 else [(0, 1), (0, 2), (0, 3)]
        edges += [f"{first + a}, {first + b}" for u, v in steps for a, b in ((u, v), (v, u))]
    for name, rows in (("A", edges), ("graph_indicator", owner), ("graph_labels", labels)):
        lines(folder / "SET" / f"SET_{name}.txt", *rows)


def ratings(folder: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [f"u{user},i{item},{draw.integers(1, 6)}" for user in range(20) for item in range(8) if draw.random() < 0.7]
    lines(folder / "ratings.csv", "user,item,rating", *rows)
    lines(folder / "new.csv", "user,item,rating", "u1,i1,4", "u1,i2,5", "u1,i3,", "u1,i4,")


def images(folder: Path) -> None:
    draw = np.random.default_rng(0)
    for place in range(40):
        kind = ("dark", "light")[place % 2]
        (folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 100, (8, 8)) + 150 * (place % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "photos" / kind / f"{place}.png")
    (folder / "new").mkdir()
    for place in range(3):
        Image.fromarray(np.full((8, 8), 80 * place, dtype=np.uint8)).save(folder / "new" / f"{place}.bmp")


def listed_images(folder: Path) -> None:
    images(folder)
    rows = [f"photos/{('dark', 'light')[i % 2]}/{i}.png,{('night', 'day')[i % 2]}" for i in range(40)]
    lines(folder / "list.csv", "path,when", *rows)
    lines(folder / "new.csv", "path", *(f"new/{i}.bmp" for i in range(3)))


def arrays(folder: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 3))
    np.savez(folder / "arrays.npz", x=x, y=(x[:, 0] > 0).astype(int))
    np.save(folder / "new.npy", x[:5])


def parquet(folder: Path) -> None:
    import pandas

    table(folder)
    for name in ("table", "new"):
        pandas.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet")


BRIEF = ("--epochs", 1, "--no-evaluate", "--no-pictures")
LEFT = ("customer_id", "prediction", "probability_no", "probability_yes")
KINDS = {
    "table": Kind(table, "softmax_regression", "table.csv", ("--target", "left"), "new.csv", 7, LEFT),
    "Parquet": Kind(parquet, "softmax_regression", "table.parquet", ("--target", "left"), "new.parquet", 7, LEFT),
    "texts with labels": Kind(
        reviews, "lstm_predictor:units=4", "reviews.csv", ("--target", "liked", "--text", "review"), "new.csv", 2
    ),
    "pairs of texts": Kind(pairs, "seq2seq_attention:units=4", "pairs.tsv:words=1", (), "new.tsv", 2),
    "series": Kind(
        series, "deepar:units=4,layers=1", "sales.csv",
        ("--time", "day", "--target", "sold", "--series", "store", "--horizon", 5), "", 10,
        ("store", "day", "mean", "q0.5"),
    ),
    "graph": Kind(graph, "gcn:hidden=4", "edges.csv", ("--nodes", "nodes.csv", "--target", "topic"), "", 30,
                  ("id", "topic", "prediction")),
    "links": Kind(links, "link_predictor:hidden=4", "edges.csv:links", (), "new.csv", 3, ("source", "target")),
    "many graphs": Kind(many_graphs, "graph_classifier:hidden=4", "SET", (), "SET", 24),
    "ratings": Kind(ratings, "ratings_rbm:units=4", "ratings.csv", (), "new.csv", 2, ("user", "item")),
    "images": Kind(images, "softmax_regression", "photos", (), "new", 3, ("file", "prediction")),
    "list of images": Kind(
        listed_images, "softmax_regression", "list.csv:images", ("--target", "when"), "new.csv", 3, ("file",)
    ),
    "arrays": Kind(arrays, "softmax_regression", "arrays.npz", (), "new.npy", 5),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_whole_way_of_a_user(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas, of deepcanon[oracles]")
    kind = KINDS[name]
    kind.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    model, _, arguments = kind.model.partition(":")
    options = [f"--{word}" for argument in arguments.split(",") if argument for word in [argument]]
    trained = call("train", model, *options, "--data", kind.data, *kind.reading, *BRIEF, "--out", "run")
    assert trained.code == 0, trained.stderr
    compared = call(
        "compare", kind.model, "--data", kind.data, *kind.reading, "--budget", 0.2, "--baselines", "none", "--out", "c",
        "--json",
    )  # fmt: skip
    assert compared.code == 0, compared.stderr
    assert compared.json["runs"][0]["measured"] is not None, compared.json["runs"][0]["error"]
    asked = ("--data", kind.new) if kind.new else ()
    written = call("predict", "run", *asked, "--out", "p.csv")
    assert written.code == 0, written.stderr
    frame = pandas.read_csv("p.csv")
    assert len(frame) == kind.rows
    assert set(kind.columns) <= set(frame.columns), list(frame.columns)
    again = call("predict", "run", *asked, "--out", "p.csv")
    assert (again.code, len(again.stderr.strip().splitlines())) == (2, 1)  # nothing is overwritten


GOOD = [f"{i * 3 % 17},{'ab'[i % 2]},{i * 7 % 11}.5" for i in range(40)]
ROWS = [f"{day},{i % 5}" for i, day in enumerate(DAYS)]
BAD: dict[str, tuple[str | bytes, Sequence[object], str]] = {
    "empty": ("", ("--target", "y"), "bad.csv is empty"),
    "names only": ("x,c,y\n", ("--target", "y"), "names its columns but has no rows"),
    "one row": ("x,c,y\n1,a,2.5\n", ("--target", "y"), "has 1 example; at least 5"),
    "ragged": ("\n".join(["x,c,y", *GOOD[:9], "1,a", *GOOD[10:]]), ("--target", "y"), "line 11 has 2 values"),
    "wrong encoding": ("\n".join(["x,c,y", *GOOD, "1,é,2"]).encode("latin-1"), ("--target", "y"), "not UTF-8"),
    "duplicate columns": ("\n".join(["x,x,y", *GOOD]), ("--target", "y"), "two columns named 'x'"),
    "unparsable date": (
        "\n".join(["x,c,y", *(f"{DAYS[i]},a,{i * 7 % 11}.5" for i in range(40)), "2024-13-45,b,2"]),
        ("--target", "y"), "line 42, column 'x'",
    ),
    "mixed types": ("\n".join(["x,c,y", *GOOD, "many,a,2.5"]), ("--target", "y"), "'x': the column holds numbers"),
    "no such column": ("\n".join(["x,c,y", *GOOD]), ("--target", "z"), "has no column 'z'"),
    "time going backwards": (
        "\n".join(["day,sold", *ROWS[:9], *ROWS[3:]]),
        ("--time", "day", "--target", "sold", "--horizon", 3), "goes back from 2024-01-09",
    ),
    "two swapped rows": (
        "\n".join(["day,sold", *ROWS[:9], ROWS[10], ROWS[9], *ROWS[11:]]),
        ("--time", "day", "--target", "sold", "--horizon", 3), "goes back from 2024-01-11",
    ),
    "unparsable time": (
        "\n".join(["day,sold", *ROWS[:9], "soon,3", *ROWS[10:]]),
        ("--time", "day", "--target", "sold", "--horizon", 3), "line 11, column 'day': a time was expected",
    ),
    "an edge to a node that is not there": (
        "source,target\nn1,n2\nn2,n9\n", ("--nodes", "nodes.csv", "--target", "topic"), "line 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_sentence_and_leave_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    content, reading, says = BAD[name]
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    lines(Path("nodes.csv"), "id,size,topic", *(f"n{i},{i},{'xy'[i % 2]}" for i in range(1, 8)))
    model = "deepar" if "--time" in reading else "gcn" if "--nodes" in reading else "mlp"
    for words in (("train", model), ("compare", model), ("compare",)):
        refused = call(*words, "--data", "bad.csv", *reading, "--out", "out")
        assert refused.code == 2, refused.stdout
        (sentence,) = refused.stderr.strip().splitlines()
        assert says in sentence
        assert "bad.csv" in sentence
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "nodes.csv"]


def test_an_unknown_category_is_a_warning_and_a_bad_new_row_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.chdir(tmp_path)
    lines(Path("rows.csv"), "x,c,y", *GOOD)
    assert call("train", "linear_regression", "--data", "rows.csv", "--target", "y", *BRIEF, "--out", "run").code == 0
    lines(Path("new.csv"), "x,c", "1,a", "2,z")
    found = call("predict", "run", "--data", "new.csv", "--out", "p.csv")
    assert found.code == 0
    assert "column 'c': 1 row has a value that the training data do not have (z), taken as unknown" in found.stderr
    lines(Path("bad.csv"), "x,c", "1,a", "many,a")
    refused = call("predict", "run", "--data", "bad.csv", "--out", "q.csv")
    assert (refused.code, len(refused.stderr.strip().splitlines())) == (2, 1)
    assert "bad.csv, line 3, column 'x'" in refused.stderr
    assert not Path("q.csv").exists()
