"""Damage of any kind is found, named, and the previous good checkpoint is used."""

import errno
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.core import CheckpointError, files
from deepcanon.optim import default_lr, optimizer_classes
from deepcanon.runs import checkpoint


def state(step: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    return {"step": step, "model": {"w": torch.randn(5, 3, generator=generator)}, "values": [0.1 * step, None]}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for step in (1, 2):
        checkpoint.save(tmp_path, step, state(step))
    return tmp_path


def test_a_state_comes_back_to_the_bit(two: Path) -> None:
    found = checkpoint.latest(two)
    assert found.complaints == ()
    assert found.state["values"] == [0.2, None]
    assert torch.equal(found.state["model"]["w"], state(2)["model"]["w"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [checkpoint.TENSORS, checkpoint.VALUES, checkpoint.MANIFEST])
def test_every_flipped_bit_is_found(two: Path, name: str) -> None:
    path = two / "step-000000002" / name
    good = path.read_bytes()
    places = random.Random(0).sample(range(8 * len(good)), k=min(400, 8 * len(good)))
    for place in places:
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        found = checkpoint.latest(two)
        assert found.path.name == "step-000000001", f"bit {place} of {name} went unnoticed"
        assert name in found.complaints[0]
    path.write_bytes(good)
    assert checkpoint.latest(two).path.name == "step-000000002"


@pytest.mark.parametrize("name", [checkpoint.TENSORS, checkpoint.VALUES, checkpoint.MANIFEST])
def test_truncated_and_missing_files_are_found(two: Path, name: str) -> None:
    path = two / "step-000000002" / name
    good = path.read_bytes()
    for length in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        assert checkpoint.latest(two).path.name == "step-000000001"
    path.unlink()
    assert name in checkpoint.latest(two).complaints[0]


def test_a_checkpoint_from_another_step_cannot_lend_a_file(two: Path) -> None:
    (two / "step-000000002" / checkpoint.TENSORS).write_bytes(
        (two / "step-000000001" / checkpoint.TENSORS).read_bytes()
    )
    assert checkpoint.latest(two).path.name == "step-000000001"


def test_all_damaged_is_an_error_that_names_them(two: Path) -> None:
    for path in checkpoint.saved(two):
        (path / checkpoint.VALUES).unlink()
    with pytest.raises(CheckpointError, match=r"step-000000002.*step-000000001"):
        checkpoint.latest(two)


def test_damaged_checkpoints_are_set_aside_not_deleted(two: Path) -> None:
    (two / "step-000000002" / checkpoint.VALUES).unlink()
    checkpoint.set_aside_damaged(two, checkpoint.latest(two).path)
    assert (two / "damaged-step-000000002" / checkpoint.TENSORS).exists()
    checkpoint.save(two, 2, state(2))
    assert checkpoint.latest(two).path.name == "step-000000002"


def test_a_pickle_in_the_folder_is_never_read(two: Path, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    for name in ("state.pt", "optimizer.pkl", "data.pkl"):
        (two / "step-000000002" / name).write_bytes(pickle.dumps(Payload()))
    assert checkpoint.latest(two).state["step"] == 2
    path = two / "step-000000002" / checkpoint.TENSORS
    path.write_bytes(pickle.dumps(Payload()))
    assert checkpoint.latest(two).state["step"] == 1
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("failing", ["fsync", "rename", "mkdir"])
def test_a_full_disk_leaves_the_previous_checkpoint(two: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(CheckpointError, match=r"No space left on device; the previous checkpoint .*step-000000002"):
        checkpoint.save(two, 3, state(3))
    monkeypatch.undo()
    assert checkpoint.latest(two).state["step"] == 2
    assert not [path for path in two.iterdir() if path.name.startswith(".writing")]


def test_the_last_k_stay_and_leftovers_go(two: Path) -> None:
    (two / ".writing-step-000000009-1").mkdir()
    checkpoint.save(two, 3, state(3))
    checkpoint.prune(two, keep=2)
    assert sorted(path.name for path in two.iterdir()) == ["step-000000002", "step-000000003"]


def test_what_a_killed_process_of_the_same_number_left_is_in_no_ones_way(two: Path) -> None:
    for name in (".writing-step-000000002", ".old-step-000000002"):
        leftover = two / f"{name}-{os.getpid()}"
        leftover.mkdir()
        (leftover / "half").write_text("written")
    checkpoint.save(two, 2, state(5))
    assert checkpoint.latest(two).state["step"] == 5


def test_a_small_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    files.write_whole(path, b"old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match="intact"):
        files.write_whole(path, b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", sorted(optimizer_classes()))
def test_every_optimizer_goes_through_a_checkpoint_to_the_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Four steps, or two, a checkpoint and two: the same bits."""
    from deepcanon.core.toy import Toy
    from deepcanon.core.turn import Descend
    from deepcanon.train.distributed import World
    from deepcanon.train.settings import resolve_settings
    from deepcanon.train.steps import Descender

    class Quadratic(Toy):
        def __init__(self, features: int) -> None:
            super().__init__(features)
            self.mean = nn.Parameter(torch.linspace(-1, 1, features, dtype=dtype).view(2, -1))

        def loss(self, batch: Any) -> dict[str, torch.Tensor]:
            return {"loss": ((self.mean - batch.x.mean()) ** 4 * torch.arange(1, 7).view(2, 3)).sum()}

    def player(model: Quadratic) -> Descender:
        text = "lbfgs:max_iter=2" if name == "lbfgs" else name  # else it would be at the optimum at once
        settings = resolve_settings(model.recipe, optimizer=text, lr=default_lr(name))
        return Descender(Descend(model.loss, model.parameters()), model, settings, World())

    _, batch = Toy.example()
    unbroken = Quadratic(features=6)
    whole = player(unbroken)
    for _ in range(4):
        whole.play(batch, batch, 1.0, False)
    first = Quadratic(features=6)
    half = player(first)
    for _ in range(2):
        half.play(batch, batch, 1.0, False)
    checkpoint.save(tmp_path, 2, {"model": dict(first.state_dict()), "player": half.state()})
    saved = checkpoint.latest(tmp_path).state
    second = Quadratic(features=6)
    second.load_state_dict(saved["model"])
    rest = player(second)
    rest.restore(saved["player"])
    for _ in range(2):
        rest.play(batch, batch, 1.0, False)
    assert torch.equal(second.mean, unbroken.mean)
    assert not torch.equal(second.mean, first.mean)
