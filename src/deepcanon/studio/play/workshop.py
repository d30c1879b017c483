"""What the process of a session runs; its import is that of all that sessions need, so that they begin at once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.catalogue import entries, find
from deepcanon.core import DeepcanonError
from deepcanon.studio.play.asked_for import asked_for, plane_sets
from deepcanon.studio.play.choices import form_of, models_for, points_to_choose
from deepcanon.studio.play.live_training import Line, play


def serve(line: Line, wanted: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Play a session, or answer what can be chosen; a mistake is a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, which is the server's to handle
    try:
        if "play" in wanted:
            play(asked_for(wanted["play"], files), line)
        else:
            line.send({"kind": "scene", "choices": _chosen(wanted["choices"], files)})
    except DeepcanonError as error:
        line.send({"kind": "failed", "says": str(error)})
    except (BrokenPipeError, EOFError, ConnectionResetError):
        sys.exit(0)  # the server has ended


def _chosen(wanted: Any, files: Mapping[str, Path]) -> Any:
    if wanted.get("model") is not None:
        return form_of(wanted["model"], wanted.get("data"), files)
    if wanted.get("data") is not None:
        return models_for(wanted["data"], files)
    return points_to_choose(files)


def _warm() -> None:
    """Import every model and the embedded points, once for all sessions."""
    plane_sets()
    for entry in entries():
        try:
            find(entry.name)
        except DeepcanonError:  # a model of another package, which says so itself when it is asked for
            continue


_warm()
