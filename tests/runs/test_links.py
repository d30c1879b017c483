"""Nothing is written through a symbolic link in the folder of a run: it might lead to any file of the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.core.files import write_synced, write_whole
from deepcanon.core.toy import Toy
from deepcanon.data import Dataset
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.folder_parts import PARTS
from deepcanon.train.process import locked


def data() -> Dataset[dc.Batch]:
    return dc.from_tensors(Toy.example()[1].x)


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file and a folder of the user's, elsewhere."""
    (tmp_path / "treasure" / "folder").mkdir(parents=True)
    (tmp_path / "treasure" / "file").write_text("precious\n")
    (tmp_path / "treasure" / "folder" / "step-000000001").mkdir()
    (tmp_path / "treasure" / "folder" / "step-000000001" / "mine").write_text("mine\n")
    return tmp_path / "treasure"


@pytest.mark.parametrize("name", [*PARTS, ".lock", ".beginning"])
@pytest.mark.parametrize("state", ["begun", "fresh", "overwritten"])
def test_a_link_in_place_of_a_part_is_refused(name: str, state: str, tmp_path: Path, treasure: Path) -> None:
    folder, before = tmp_path / "run", snapshot(treasure)
    folder.mkdir()
    target = treasure / ("folder" if name in ("checkpoints", "pictures") else "file")
    if state != "fresh":
        dc.fit(Toy.example()[0], data(), out=folder, quiet=True, epochs=2, checkpoint_every=1)
        RunFolder.open(folder).update(status="running")
        if (folder / name).exists():
            os.rename(folder / name, tmp_path / "moved")
            if name == "run.json":  # a run that is read through the link, so that resuming comes to its writing
                target = tmp_path / "moved"
    (folder / name).symlink_to(target)
    moved = snapshot(tmp_path / "moved") if (tmp_path / "moved").is_dir() else {}
    writing = {
        "begun": lambda: dc.resume(folder, data(), Toy, quiet=True),
        "fresh": lambda: dc.fit(Toy.example()[0], data(), out=folder, quiet=True, epochs=2),
        "overwritten": lambda: dc.fit(Toy.example()[0], data(), out=folder, quiet=True, epochs=2, overwrite=True),
    }
    with pytest.raises(UsageError, match=rf"{name} is a symbolic link|already holds {name}|not a run to overwrite"):
        writing[state]()
    assert snapshot(treasure) == before
    assert moved == (snapshot(tmp_path / "moved") if moved else {})
    assert (folder / name).is_symlink()


def test_a_link_that_comes_during_a_training_is_refused_too(tmp_path: Path, treasure: Path) -> None:
    run = RunFolder(tmp_path, {})
    (tmp_path / "log.jsonl").symlink_to(treasure / "file")
    (tmp_path / "checkpoints").symlink_to(treasure / "folder")
    before = snapshot(treasure)
    for write in (
        lambda: run.append([]),
        lambda: run.cut_log(0),
        lambda: checkpoint.save(run.checkpoints, 1, {"step": 1}),
        lambda: checkpoint.set_aside_damaged(run.checkpoints, Path("step-000000000")),
    ):
        with pytest.raises(UsageError, match="is a symbolic link"):
            write()
    checkpoint.prune(run.checkpoints, 1)
    assert snapshot(treasure) == before


def test_a_file_is_not_written_through_a_link_nor_its_temporary_one(tmp_path: Path, treasure: Path) -> None:
    (tmp_path / "a").symlink_to(treasure / "file")
    (tmp_path / f".writing-b-{os.getpid()}").symlink_to(treasure / "file")
    with pytest.raises(UsageError, match="a is a symbolic link"):
        write_whole(tmp_path / "a", "mine")
    write_whole(tmp_path / "b", "mine")
    with pytest.raises(UsageError, match="a is a symbolic link"):
        write_synced(tmp_path / "a", b"mine")
    assert (tmp_path / "b").read_text() == "mine"
    assert (treasure / "file").read_text() == "precious\n"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "large-disk")
    with locked(tmp_path / "run"):
        pass
    dc.fit(Toy.example()[0], data(), out=tmp_path / "run", quiet=True, epochs=1)
    assert (tmp_path / "large-disk" / "run.json").is_file()
