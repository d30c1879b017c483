"""Files that were made up: each is answered in one sentence with the name of the file, whatever is wrong in it."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import deepcanon as dc
from deepcanon.core import CheckpointError, DeepcanonError
from deepcanon.core.files import seal, unseal
from deepcanon.core.stored import DEEPEST, parse_json, read_file
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with several checkpoints, a moving average and early stopping."""
    folder = tmp_path_factory.mktemp("made") / "run"
    dc.Run.train(
        "mlp:hidden=4", "moons", out=folder, quiet=True, steps=6, checkpoint_every=2, keep=9, ema=0.9, patience=9
    )
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


Change = Callable[[dict[str, Any]], object]
INFOS: dict[str, Change] = {
    "no format": lambda info: info.pop("format"),
    "no model": lambda info: info.pop("model"),
    "a format of the future": lambda info: info.update(format=10**30),
    "a status that is none": lambda info: info.update(status="done"),
    "finished without results": lambda info: info.pop("results"),
    "a model without arguments": lambda info: info["model"].pop("arguments"),
    "a model that is not there": lambda info: info["model"].update(model="nothing"),
    "a model that is a number": lambda info: info["model"].update(model=3),
    "an argument that is not there": lambda info: info["model"]["arguments"].update(color="red"),
    "an argument of another type": lambda info: info["model"]["arguments"].update(hidden="x"),
    "an argument that nobody would give": lambda info: info["model"]["arguments"].update(hidden=[-4]),
    "a width beyond all memory": lambda info: info["model"]["arguments"].update(hidden=[2**62]),
    "other features than the data": lambda info: info["model"]["arguments"].update(features=3),
    "fewer classes than the data": lambda info: info["model"]["arguments"].update(classes=1),
    "a shape of words": lambda info: info["data"].update(shape=["a"]),
    "more labels than classes": lambda info: info["data"].update(labels=["a", "b", "c"]),
    "a kind that is none": lambda info: info["data"].update(kind="smells"),
    "a tokenizer that is none": lambda info: info["data"]["preprocessing"].update(tokenizer={"kind": "x"}),
    "columns that are none": lambda info: info["data"]["preprocessing"].update(columns=[{"kind": "number"}]),
    "another tokenizer": lambda info: info["data"]["preprocessing"].update(tokenizer={"kind": "bytes"}),
    "no environment": lambda info: info.update(environment={}),
    "seconds below zero": lambda info: info["results"].update(seconds=-1.0),
    "a checksum that is none": lambda info: info.update(sha256="x"),
    "too deep": lambda info: info.update(more=nested(DEEPEST + 1)),
    "a list": lambda info: info.update(model=[]),
    "a text where scores are": lambda info: info["results"].update(test="good"),
}


@pytest.mark.parametrize("name", INFOS)
def test_a_made_up_description_is_a_sentence(name: str, run: Path) -> None:
    info = unseal((run / "run.json").read_bytes(), run / "run.json")
    INFOS[name](info)
    (run / "run.json").write_bytes(seal(info))
    with pytest.raises(DeepcanonError) as raised:
        assert dc.Run(run).model
    assert str(run) in str(raised.value)
    assert len(str(raised.value)) < 600


SETTINGS: dict[str, Change] = {
    "no rate": lambda settings: settings.pop("lr"),
    "a rate of text": lambda settings: settings.update(lr="fast"),
    "one that is not there": lambda settings: settings.update(color="red"),
    "an optimizer that is none": lambda settings: settings.update(optimizer="x:y"),
    "a seed below zero": lambda settings: settings.update(seed=-1),
    "a seed beyond": lambda settings: settings.update(seed=2**70),
    "batches of none": lambda settings: settings.update(batch_size=0),
    "a list of numbers to freeze": lambda settings: settings.update(freeze=[1]),
    "a device that is none": lambda settings: settings.update(device="toaster"),
    "a precision that is none": lambda settings: settings.update(precision="fp3"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_made_up_settings_are_a_sentence(name: str, run: Path) -> None:
    info = unseal((run / "run.json").read_bytes(), run / "run.json")
    SETTINGS[name](info["settings"])
    (run / "run.json").write_bytes(seal(info))
    with pytest.raises(CheckpointError, match=r"the settings in .*run\.json are not those of a training"):
        assert dc.Run(run).settings


def wrong_tensors(good: dict[str, torch.Tensor]) -> dict[str, bytes]:
    first = next(name for name, value in good.items() if value.ndim == 2)  # their order in a file is any
    header = b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}'
    others = {
        "missing": {name: value for name, value in good.items() if name != first},
        "extra": {**good, "more": torch.zeros(1)},
        "shape": {**good, first: good[first].flatten()},
        "type": {**good, first: good[first].long()},
        "NaN": {**good, first: good[first] * torch.nan},
        "none": {},
    }
    return {
        **{name: safetensors.torch.save(tensors) for name, tensors in others.items()},
        "pickle": pickle.dumps({"state": 1}),
        "nothing": b"",
        "a header beyond the file": (2**62).to_bytes(8, "little") + b"{}",
        "a header that lies": len(header).to_bytes(8, "little") + header + bytes(4),
        "a header of noise": (4).to_bytes(8, "little") + b"\xff\xfe\x00\x01",
    }


KINDS = list(wrong_tensors({"a": torch.zeros(2, 2)}))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_something_else_are_a_sentence(kind: str, run: Path) -> None:
    content = wrong_tensors(RunFolder.open(run).read_weights())[kind]
    (run / "model.safetensors").write_bytes(content)
    RunFolder.open(run).update(sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        assert dc.Run(run).model


def broken_off(run: Path) -> Path:
    """The run as it was before its end, and its newest checkpoint."""
    (run / "model.safetensors").unlink()
    RunFolder.open(run).update(status="running")
    return checkpoint.saved(run / "checkpoints")[-1]


def rewrite(newest: Path, name: str, content: bytes) -> None:
    """Replace a file of a checkpoint and make its manifest right."""
    (newest / name).write_bytes(content)
    path = newest / "manifest.json"
    files = unseal(path.read_bytes(), path)["files"]
    files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_bytes(seal({"files": files}))


STATES: dict[str, Change] = {
    "no step": lambda state: state.pop("step"),
    "a step below zero": lambda state: state.update(step=-1),
    "a step of text": lambda state: state.update(step="six"),
    "a step beyond": lambda state: state.update(step=10**9),
    "another step": lambda state: state.update(step=3),
    "no optimizer": lambda state: state.update(players=[]),
    "two optimizers": lambda state: state.update(players=state["players"] * 2),
    "an optimizer of nothing": lambda state: state["players"][0].update(parameters=[]),
    "a rate of text": lambda state: state["players"][0]["groups"][0].update(lr="x"),
    "betas of one": lambda state: state["players"][0]["groups"][0].update(betas=[0.9]),
    "half of Adam": lambda state: state["players"][0]["parameters"][0].pop("exp_avg"),
    "no average": lambda state: state.update(average=[]),
    "no random state": lambda state: state.update(random=[{}]),
    "a random state of text": lambda state: state["random"][0].update(torch="x"),
    "a tensor that is not there": lambda state: state["model"].update({"more": {"$": "tensor", "name": "no"}}),
    "a value of a kind that is none": lambda state: state.update(seconds={"$": "spell"}),
    "a number that is none": lambda state: state.update(seconds={"$": "float", "value": "many"}),
    "a dictionary with odd keys": lambda state: state.update(observers={"$": "dict", "items": [[[], 1]]}),
    "an observer of text": lambda state: state["observers"].update(Log="x"),
    "a log below zero": lambda state: state["observers"]["Log"].update(length="x"),
    "no best weights": lambda state: state["observers"]["Watch"].pop("weights"),
    "a watch of text": lambda state: state["observers"]["Watch"].update(best="x"),
    "weights exchanged": lambda state: state.update(model={}),
    "too deep": lambda state: state.update(more=nested(DEEPEST + 1)),
}


@pytest.mark.parametrize("name", STATES)
def test_a_made_up_state_is_said_and_the_one_before_used(
    name: str, run: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = broken_off(run)
    state = json.loads((newest / "state.json").read_bytes())
    STATES[name](state)
    rewrite(newest, "state.json", json.dumps(state).encode())
    assert dc.Run(run).resume(quiet=True).info["status"] == "finished"
    assert f"{newest}" in capsys.readouterr().err
    ours, wanted = (RunFolder.open(folder).read_weights() for folder in (run, made))
    assert all(torch.equal(ours[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("extra",)])
def test_tensors_of_something_else_in_a_checkpoint_are_said(
    kind: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = broken_off(run)
    good = safetensors.torch.load((newest / "state.safetensors").read_bytes())
    first = {"model/layers.0.weight": good.pop(next(key for key in good if key.startswith("model/")))}
    rewrite(newest, "state.safetensors", wrong_tensors({**first, **good})[kind])
    assert dc.Run(run).resume(quiet=True).info["status"] == "finished"
    assert f"{newest}" in capsys.readouterr().err


def test_an_optimizer_with_moments_of_another_shape_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = broken_off(run)
    good = safetensors.torch.load((newest / "state.safetensors").read_bytes())
    name = next(key for key in good if key.endswith("exp_avg"))
    rewrite(newest, "state.safetensors", safetensors.torch.save({**good, name: torch.zeros(7)}))
    assert dc.Run(run).resume(quiet=True).info["status"] == "finished"
    assert f"{newest / 'state.json'} is not of this training" in capsys.readouterr().err


def test_where_no_checkpoint_is_whole_all_are_named(run: Path) -> None:
    broken_off(run)
    for path in checkpoint.saved(run / "checkpoints"):
        (path / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"holds no whole checkpoint; .*step-000000006.*step-000000000"):
        dc.Run(run).resume(quiet=True)


def test_only_files_are_read_and_not_beyond_what_belongs_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open which would wait for a writer
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * 100)
    for name in ("pipe", "folder"):
        with pytest.raises(CheckpointError, match=f"{name} is not a file that can be read"):
            read_file(tmp_path / name)
    with pytest.raises(CheckpointError, match="it has 100 bytes, at most 99 belong there"):
        read_file(tmp_path / "large", 99)
    with pytest.raises(CheckpointError, match="missing or cannot be read: No such file"):
        read_file(tmp_path / "nothing")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(CheckpointError, match="bytes, at most"):
        read_file(tmp_path / "sparse")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"NaN", b'{"a": Infinity}', b"[" * 10**5, b"9" * 5000])
def test_what_is_not_json_is_a_sentence(raw: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"a\.json is damaged: it is not JSON"):
        parse_json(raw, Path("a.json"))


def test_a_number_beyond_json_in_a_sealed_file_is_a_sentence() -> None:
    raw = seal({"a": 1}).replace(b'"a": 1', b'"a": 1e999')
    with pytest.raises(CheckpointError, match="does not match its own checksum"):
        unseal(raw, Path("a.json"))
