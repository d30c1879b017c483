"""The process of a session; its import is that of all that sessions need, so that they begin at once."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from deepcanon.catalogue import entries, find
from deepcanon.core import DeepcanonError
from deepcanon.data import load_data
from deepcanon.studio.play.asked_for import asked_for, plane_sets
from deepcanon.studio.play.choices import form_of, models_for, points_to_choose
from deepcanon.studio.play.live_training import Line, play


def serve(line: Line, wanted: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Play a session, or answer what can be chosen; a mistake is a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, which is the server's to handle
    torch.set_num_threads(THREADS)
    try:
        if "play" in wanted:
            play(asked_for(wanted["play"], files), line)
        else:
            line.send({"kind": "scene", "choices": _chosen(wanted["choices"], files)})
    except DeepcanonError as error:
        line.send({"kind": "failed", "says": str(error)})
    except (BrokenPipeError, EOFError, ConnectionResetError):
        sys.exit(0)  # the server has ended


def _chosen(wanted: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """All that can be chosen; without a model that learns from these points, the form is that of the first one."""
    points = points_to_choose(files)
    data = wanted.get("data") or {"set": next(each["name"] for each in points["sets"] if each["classes"])}
    models = wanted.get("models") or models_for(data, files)
    names = [each["name"] for each in models]
    first = next((each["name"] for each in models if each["first"]), names[0])
    model = wanted.get("model") if wanted.get("model") in names else first
    return {"points": points, "data": data, "models": models, "model": model, "form": form_of(model, data, files)}


def _warm() -> None:
    """Import every model, and load the embedded points, once for all sessions."""
    importlib.import_module("torch._dynamo")  # which the first optimizer imports
    for name in plane_sets():
        load_data(name)
    for entry in entries():
        try:
            find(entry.name)
        except DeepcanonError:  # a model of another package, which says so itself when it is asked for
            continue


THREADS = torch.get_num_threads()
"""How many threads a session computes with: as many as the code that repeats it will."""
torch.set_num_threads(1)  # a process that has begun others cannot be forked: its sessions would wait for them forever
_warm()
