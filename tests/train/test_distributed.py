"""Two processes are one: identical replicas, the same gradient, one writer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from deepcanon import catalogue
from deepcanon.runs.folder import RunFolder
from tests.train import replicas


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, torch.Tensor]]]:
    """The weights of both ranks and of one process alone."""
    folder = tmp_path_factory.mktemp("replicas")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launcher, replicas.__file__, str(folder)], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    replicas.main(folder)
    names = {"first": "rank-0-of-2", "second": "rank-1-of-2", "alone": "rank-0-of-1"}
    return folder, {key: safetensors.torch.load_file(folder / f"{name}.safetensors") for key, name in names.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "mlp_dropout", "vae", "gan", "by_hand", "deepar", "gradient", "lbfgs"])
def test_replicas_stay_identical_to_the_bit(
    outcome: tuple[Path, dict[str, dict[str, torch.Tensor]]], name: str
) -> None:
    _, weights = outcome
    keys = [key for key in weights["first"] if key.startswith(f"{name}/")]
    assert keys
    for key in keys:
        assert torch.equal(weights["first"][key], weights["second"][key]), key


@pytest.mark.slow
def test_the_averaged_gradient_is_the_one_process_gradient(
    outcome: tuple[Path, dict[str, dict[str, torch.Tensor]]],
) -> None:
    _, weights = outcome
    for key in (key for key in weights["alone"] if key.startswith("gradient/")):
        torch.testing.assert_close(weights["first"][key], weights["alone"][key], rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "by_hand", "deepar"])
def test_fifty_steps_agree_with_one_process(
    outcome: tuple[Path, dict[str, dict[str, torch.Tensor]]], name: str
) -> None:
    _, weights = outcome
    for key in (key for key in weights["alone"] if key.startswith(f"{name}/")):
        torch.testing.assert_close(weights["first"][key], weights["alone"][key], rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in catalogue.entries()])
def test_two_processes_take_the_step_of_one_on_ragged_data(
    outcome: tuple[Path, dict[str, dict[str, torch.Tensor]]], name: str
) -> None:
    """Replicas stay the same to the bit; where nothing is drawn at random, they are what one process comes to.

    A loss that relates the examples of a batch to each other has fewer of them in each process, as it declares.
    """
    _, weights = outcome
    keys = [key for key in weights["first"] if key.startswith(f"catalogue/{name}/")]
    certain = bool(weights["alone"][f"certain/{name}"]) and not catalogue.find(name).relates_examples
    for key in keys:
        first, second, alone = (weights[who][key] for who in ("first", "second", "alone"))
        assert torch.equal(first.nan_to_num(), second.nan_to_num()), key
        if certain:
            torch.testing.assert_close(first, alone, rtol=1e-4, atol=1e-6, equal_nan=True)


@pytest.mark.slow
def test_only_the_first_process_writes(outcome: tuple[Path, dict[str, dict[str, torch.Tensor]]]) -> None:
    folder, weights = outcome
    run = RunFolder.open(folder / "run-mlp-2")
    assert run.info["status"] == "finished"
    assert run.info["environment"]["processes"] == 2
    steps = [record["step"] for record in run.log() if record["kind"] == "step"]
    assert steps == sorted(set(steps)), "each step is logged once"
    final = run.read_weights()
    assert all(torch.equal(final[key], weights["first"][f"mlp/{key}"]) for key in final)
