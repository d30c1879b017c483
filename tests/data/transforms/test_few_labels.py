"""A few labels stay, the same ones whenever the data are loaded, and of every class; held-out data keep theirs."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from deepcanon.core import DataError, Labeled, SemiBatch, UsageError
from deepcanon.data import from_tensors, load_data, load_rows
from deepcanon.data.transforms.few_labels import few_labels


def rows_of(x: torch.Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in x.flatten(1).tolist()}


@pytest.mark.parametrize(("name", "count", "each"), [("moons", 6, 3), ("digits", 40, 4), ("digits:binary", 100, 10)])
def test_labeled_and_unlabeled_examples_are_the_training_part(name: str, count: int, each: int) -> None:
    plain, few = load_data(name), load_data(f"{name}:labels={count}")
    train = few.train
    assert isinstance(train, SemiBatch)
    assert (len(train.x), len(train.unlabeled)) == (count, len(plain.train) - count)
    assert np.abs(np.bincount(train.y.numpy()) - each).max() <= (1 if name != "moons" else 0)
    both = torch.cat([train.x, train.unlabeled]).flatten(1)
    assert torch.equal(both.unique(dim=0), plain.train.x.flatten(1).unique(dim=0))
    label = {tuple(x): y for x, y in zip(plain.train.x.flatten(1).tolist(), plain.train.y.tolist(), strict=True)}
    assert [label[tuple(x)] for x in train.x.flatten(1).tolist()] == train.y.tolist()
    for part in ("valid", "test"):
        assert type(few.split(part)) is Labeled
        assert torch.equal(few.split(part).y, plain.split(part).y)
    assert dict(few.sizes) == dict(plain.sizes)
    assert few.name == f"{name}:labels={count}"


def test_the_seed_alone_decides_which_labels_stay() -> None:
    names = ("moons:labels=6", "moons:labels=6,seed=0", "moons:labels=6,seed=1")
    same, again, other = (load_data(name).train.x for name in names)
    assert torch.equal(same, again)
    assert not rows_of(same) & rows_of(other)


def test_forms_are_remembered_in_their_order(tmp_path: Path) -> None:
    assert load_data("digits:binary:labels=20").preprocessing["form"] == "binary:labels=20"
    file = tmp_path / "rows.csv"
    file.write_text("a,b,kind\n" + "".join(f"{i},{i * i % 7},{'xy'[i % 2]}\n" for i in range(60)))
    data = load_data(f"{file}:labels=4", target="kind")
    assert sorted(data.train.y.tolist()) == [0, 0, 1, 1]
    again = load_data(f"{file}:labels=4", target="kind", preprocessing=data.preprocessing)
    assert again.fingerprint() == data.fingerprint()
    assert again.preprocessing == data.preprocessing
    assert len(load_rows(f"{file}:labels=4", data.preprocessing)) == 60


def test_a_validation_part_is_taken_before_labels_are_hidden() -> None:
    x = torch.arange(100.0).view(50, 2)
    data = few_labels(from_tensors(x, torch.arange(50) % 2), "labels=4")
    assert data.valid is not None
    assert len(data.split("valid")) == 5
    assert len(rows_of(data.train.x) | rows_of(data.train.unlabeled) | rows_of(data.split("valid").x)) == 50
    assert data.with_validation_split(seed=1) is data


@pytest.mark.parametrize("form", ["labels=", "labels=six", "labels=6,seed=a", "labels=6;seed=1"])
def test_what_is_written_wrongly_is_shown_how(form: str) -> None:
    with pytest.raises(UsageError, match=f"few labels are written moons:labels=40 .*got moons:{re.escape(form)}"):
        load_data(f"moons:{form}")


def test_too_few_and_too_many_labels_and_data_without_classes_are_refused() -> None:
    with pytest.raises(DataError, match=r"at least 2 and at most half, 2000, can stay \(got 1\)"):
        load_data("moons:labels=1")
    with pytest.raises(DataError, match=r"at most half, 628, can stay \(got 629\)"):
        load_data("digits:labels=629")
    for name in ("eight-gaussians", "text", "karate"):
        with pytest.raises(DataError, match=f"which {name} does not give"):
            load_data(f"{name}:labels=4")
    with pytest.raises(DataError, match="does not give"):
        load_data("moons:labels=6:labels=4")
    with pytest.raises(UsageError, match="write ':binary' before ':labels='"):
        load_data("digits:labels=40:binary")
    lopsided = from_tensors(torch.randn(60, 2), torch.tensor([0] * 57 + [1, 1, 2]))
    with pytest.raises(DataError, match=r"3 labels leave 2 of the 3 classes of tensors without one: keep more"):
        few_labels(lopsided, "labels=3")
