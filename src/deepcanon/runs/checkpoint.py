"""Checkpoints: directories of safetensors and JSON with a SHA-256 manifest. No pickle is ever written or read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from deepcanon.core import CheckpointError
from deepcanon.core.files import free, read_sealed, refuse_links, seal, sync_folder, write_synced
from deepcanon.core.plural import counted
from deepcanon.core.stored import parse_json, read_file
from deepcanon.runs.contents import MOST_MANIFEST, Manifest
from deepcanon.runs.stored_tensors import load_tensors
from deepcanon.runs.tree import flatten, unflatten

TENSORS, VALUES, MANIFEST = "state.safetensors", "state.json", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """A state that was read and found good, with what was wrong with newer ones."""

    path: Path
    state: dict[str, Any]
    complaints: tuple[str, ...]


def save(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write ``state`` as a checkpoint of this step: under a temporary name, synced, then renamed."""
    final = folder / f"step-{step:09d}"
    refuse_links(folder, final)
    temporary, old = (folder / f"{prefix}-{final.name}-{os.getpid()}" for prefix in (".writing", ".old"))
    values, tensors = flatten(state)
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    files = {TENSORS: safetensors.torch.save(copies), VALUES: json.dumps(values, allow_nan=False).encode()}
    manifest = {name: {"bytes": len(content), "sha256": _sha256(content)} for name, content in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in (temporary, old):  # of a process that had the same number and was killed here
            shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir()
        for name, content in {**files, MANIFEST: seal({"files": manifest})}.items():
            write_synced(temporary / name, content)
        sync_folder(temporary)
        if final.exists():  # the same step again, after a resume from an older checkpoint
            os.rename(final, old)
        os.rename(temporary, final)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        there = saved(folder)
        intact = f"the previous checkpoint {there[-1]} is intact" if there else "there is no earlier checkpoint"
        raise CheckpointError(f"could not write the checkpoint {final}: {error.strerror}; {intact}") from error
    return final


def saved(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if re.fullmatch(r"step-\d{9,}", path.name))


def prune(folder: Path, keep: int) -> None:
    """Remove all but the last ``keep`` checkpoints and what interrupted writes have left behind."""
    leftovers = [*folder.glob(".writing-*"), *folder.glob(".old-*")]
    for path in [*saved(folder)[:-keep], *leftovers]:
        shutil.rmtree(path, ignore_errors=True)


def read(path: Path) -> dict[str, Any]:
    """The state of one checkpoint; whatever is missing, cut or altered is named."""
    manifest = read_sealed(path / MANIFEST, Manifest, MOST_MANIFEST)["files"]
    contents = {name: _verified(path / name, manifest[name]) for name in (TENSORS, VALUES)}
    tensors = load_tensors(contents[TENSORS], path / TENSORS)
    state = unflatten(parse_json(contents[VALUES], path / VALUES), tensors, path / VALUES)
    if not isinstance(state, dict):
        raise CheckpointError(f"{path / VALUES} is not the state of a training")
    return state


def latest(folder: Path, restore: Callable[[Path, dict[str, Any]], None] = lambda path, state: None) -> Checkpoint:
    """The newest checkpoint that is whole and that ``restore``, which may raise a CheckpointError, can make use of."""
    complaints: list[str] = []
    for path in reversed(saved(folder)):
        try:
            state = read(path)
            restore(path, state)
            return Checkpoint(path, state, tuple(complaints))
        except CheckpointError as error:
            complaints.append(str(error))
    raise CheckpointError("; ".join([f"{folder} holds no whole checkpoint", *complaints]))


def set_aside_damaged(folder: Path, good: Path) -> None:
    """Rename checkpoints newer than the last good one, never deleting any, so that none is written over."""
    refuse_links(folder)
    for path in saved(folder):
        if path.name > good.name:
            os.rename(path, free(path.with_name(f"damaged-{path.name}")))


def freeze_state(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A copy of a state dict that later training does not change."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _verified(path: Path, expected: Mapping[str, Any]) -> bytes:
    content = read_file(path, expected["bytes"])
    if len(content) != expected["bytes"]:
        raise CheckpointError(
            f"{path} is damaged: it has {counted(len(content), 'byte')} in place of {expected['bytes']}"
        )
    if _sha256(content) != expected["sha256"]:
        raise CheckpointError(f"{path} is damaged: it does not match its checksum in {MANIFEST}")
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
