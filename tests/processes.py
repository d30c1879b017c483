"""The command line in processes of its own, forked with all that it imports: else each would take seconds to begin."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from typer.testing import CliRunner

from deepcanon.cli.app import app
from deepcanon.runs import checkpoint

PATIENCE = 600.0
"""Seconds after which a process hangs, however busy the machine is."""


def done(*words: object) -> str:
    """What a command prints that runs in this process and must succeed."""
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def killed(*words: object, step: int) -> None:
    """Train in a process that dies of SIGKILL as soon as the checkpoint of this step is there."""
    assert _ended(_forked(words, {}, step)) == -signal.SIGKILL, "it has ended before it could be killed"


def together(*words: object) -> None:
    """Train in two processes, which meet at a store of this one, as those do that ``torchrun`` starts."""
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ranks = [{**place, "WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    assert [_ended(child) for child in [_forked(words, rank) for rank in ranks]] == [0, 0]


def die_at(step: int) -> None:
    """Let this process die of SIGKILL as soon as its training has saved the checkpoint of this step."""
    save = checkpoint.save

    def last(folder: Path, at: int, state: Any) -> Path:
        saved = save(folder, at, state)
        if at == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    vars(checkpoint)["save"] = last


def _forked(words: Sequence[object], environment: dict[str, str], step: int | None = None) -> Any:
    importlib.import_module("torch._dynamo")  # which the first optimizer imports: here, not in every child
    child = multiprocessing.get_context("fork").Process(target=_called, args=(words, environment, step))
    child.start()
    return child


def _ended(child: Any) -> int | None:
    """The code of a process that has ended; None if it hangs."""
    child.join(PATIENCE)
    child.kill()
    return child.exitcode  # type: ignore[no-any-return]


def _called(words: Sequence[object], environment: dict[str, str], step: int | None) -> None:
    sys.settrace(None)  # what a process of its own runs does not count as covered
    torch.set_num_threads(1)
    os.environ |= environment
    if step is not None:
        die_at(step)
    answer = CliRunner().invoke(app, list(map(str, words)))
    if answer.exit_code:
        os.write(2, answer.output.encode())  # pytest shows it
    os._exit(answer.exit_code)
