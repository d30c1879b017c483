"""A run that was broken off is gone on with, and says what it had to leave out; tests/attacks/kills.py kills them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import deepcanon as dc
from deepcanon.core import Batch, DataError, Terms, UsageError
from deepcanon.core.toy import Toy
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.train.process import locked


def begun(folder: Path, **settings: object) -> RunFolder:
    """A run of the toy model with a checkpoint at every step, taken back to the middle."""
    model, batch = Toy.example()
    dc.fit(model, dc.from_tensors(batch.x), out=folder, quiet=True, epochs=10, checkpoint_every=1, keep=99, **settings)  # type: ignore[arg-type]
    run = RunFolder.open(folder)
    for path in checkpoint.saved(run.checkpoints)[6:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (folder / "model.safetensors").unlink()
    run.info.pop("sha256")
    run.update(status="running")
    return run


def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, batch = Toy.example()
    data = dc.from_tensors(batch.x)
    unbroken = dc.fit(model, data, quiet=True, epochs=10).model.state_dict()
    run = begun(tmp_path / "run")
    (run.checkpoints / "step-000000005" / checkpoint.TENSORS).write_bytes(b"rubbish")
    result = dc.resume(run.dir, data, Toy, quiet=True)
    said = capsys.readouterr().err
    assert "step-000000005" in said
    assert "going on from step-000000004" in said
    assert RunFolder.open(run.dir).info["fallbacks"] == said.splitlines()
    assert torch.equal(result.model.state_dict()["mean"], unbroken["mean"])
    assert (run.checkpoints / "damaged-step-000000005").exists()


def test_a_run_that_another_process_trains_is_not_touched(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    (run.checkpoints / "step-000000005" / checkpoint.TENSORS).write_bytes(b"in the middle of a write")
    with (run.dir / "log.jsonl").open("a") as log:
        log.write('{"kind": "step"')  # a line that the other process is writing
    before = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file() and path.name != ".lock"}
    _, batch = Toy.example()
    with locked(run.dir), pytest.raises(UsageError, match="another process is training in"):
        dc.resume(run.dir, dc.from_tensors(batch.x), Toy, quiet=True)
    after = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_a_run_that_was_never_checkpointed_past_the_start_begins_again(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    for path in checkpoint.saved(run.checkpoints)[1:]:
        (path / checkpoint.MANIFEST).unlink()
    model, batch = Toy.example()
    unbroken = dc.fit(model, dc.from_tensors(batch.x), quiet=True, epochs=10).model.state_dict()
    again = dc.resume(run.dir, dc.from_tensors(batch.x), Toy, quiet=True)
    assert torch.equal(again.model.state_dict()["mean"], unbroken["mean"])


def test_resume_says_what_has_changed_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begun(tmp_path / "run")
    run.update(environment={**run.info["environment"], "threads": 7, "torch": "1.0", "processes": 4})
    _, batch = Toy.example()
    dc.resume(run.dir, dc.from_tensors(batch.x), Toy)
    said = capsys.readouterr().out
    assert "the number of threads was 7 and is 1 now" in said
    assert "the torch version was 1.0" in said
    assert "the number of processes was 4 and is 1 now" in said


def test_resume_refuses_other_data(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    with pytest.raises(DataError, match="not those"):
        dc.resume(run.dir, dc.from_tensors(torch.zeros(32, 2)), Toy)
    with pytest.raises(UsageError, match="give the same data"):
        dc.resume(run.dir, model=Toy)


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    model, batch = Toy.example()
    data = dc.from_tensors(batch.x)
    first = dc.fit(model, data, out=tmp_path / "run", quiet=True, epochs=2)
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    again = dc.resume(tmp_path / "run", data, Toy)
    assert again.train == pytest.approx(first.train)
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


def test_altered_files_of_a_run_are_noticed(tmp_path: Path) -> None:
    from deepcanon.core import CheckpointError

    model, batch = Toy.example()
    dc.fit(model, dc.from_tensors(batch.x), out=tmp_path, quiet=True, epochs=1)
    weights = tmp_path / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        dc.load(tmp_path, Toy)
    info = tmp_path / "run.json"
    info.write_bytes(info.read_bytes().replace(b'"lr": 0.1', b'"lr": 0.2'))
    with pytest.raises(CheckpointError, match=r"run\.json is damaged"):
        dc.load(tmp_path, Toy)


def test_a_folder_of_images_in_a_form_is_found_again(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for label in ("a", "b"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(256, size=(2, 2), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / label / f"{number}.png")
    data = dc.load_data(f"{tmp_path / 'images'}:binary")
    model = Toy(features=4)
    dc.fit(model, data, out=tmp_path / "run", quiet=True, epochs=1)
    RunFolder.open(tmp_path / "run").update(status="running")
    assert dc.resume(tmp_path / "run", model=Toy, quiet=True).steps == 1


def test_a_finished_run_that_lost_its_weights_is_finished_again(tmp_path: Path) -> None:
    model, batch = Toy.example()
    data = dc.from_tensors(batch.x, name="mine")
    first = dc.fit(model, data, out=tmp_path, quiet=True, epochs=2)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="data given in Python"):
        dc.resume(tmp_path, model=Toy)
    again = dc.resume(tmp_path, data, Toy, quiet=True)
    assert torch.equal(again.model.state_dict()["mean"], first.model.state_dict()["mean"])
    assert (tmp_path / "model.safetensors").exists()


def test_a_log_that_lost_its_end_stays_readable(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    log = run.dir / "log.jsonl"
    log.write_bytes(log.read_bytes()[:100])
    _, batch = Toy.example()
    dc.resume(run.dir, dc.from_tensors(batch.x), Toy, quiet=True)
    assert [record["step"] for record in run.log()][-1] == 10


class Warming(Toy):
    """A loss that grows with the share of the training that is done."""

    def loss(self, batch: Batch) -> Terms:
        return {"nll": super().loss(batch)["nll"] * self.progress}


def test_the_share_of_the_training_is_known_again(tmp_path: Path) -> None:
    _, batch = Toy.example()
    data = dc.from_tensors(batch.x)
    unbroken = dc.fit(Warming(2), data, out=tmp_path, quiet=True, epochs=3)
    (tmp_path / "model.safetensors").unlink()
    assert dc.resume(tmp_path, data, Warming, quiet=True).train == unbroken.train
