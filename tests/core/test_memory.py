"""Memory: what does not fit is refused with the numbers before it is taken, and what remains ends in a sentence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import deepcanon as dc
from deepcanon.catalogue import find
from deepcanon.core import Batch, Terms, memory
from deepcanon.core.errors import MemoryLimitError
from deepcanon.core.metered import MOST_TENSORS, Metered
from deepcanon.core.toy import Toy
from deepcanon.runs import checkpoint


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which 200 MB are free."""
    monkeypatch.setattr(memory, "free_memory", lambda: 200_000_000)


def test_what_is_free_is_what_the_system_says() -> None:
    free, page, pages = memory.free_memory(), os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    assert 0 < free <= page * pages + memory._machine().get("SwapTotal", 0)


def container(root: Path, version: int, limit: str, used: int, files: int) -> dict[str, str]:
    folder = root / ("memory/box" if version == 1 else "box")
    folder.mkdir(parents=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    for name, content in zip(names, (limit, str(used)), strict=True):
        (folder / name).write_text(f"{content}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {files}\n")
    return {"/proc/self/cgroup": "4:memory:/box\n" if version == 1 else "0::/box\n", "/sys/fs/cgroup": str(root)}


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_container_counts(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the cache are given back where memory is needed."""
    moved = container(tmp_path, version, "1000000000", used=700_000_000, files=100_000_000)
    read = memory._text

    def text(file: Path) -> str:
        for there, here in moved.items():
            if str(file) == there:
                return here
            if str(file).startswith(f"{there}/"):
                return read(Path(here) / file.relative_to(there))
        return read(file)

    monkeypatch.setattr(memory, "_text", text)
    assert memory.free_memory() == 400_000_000


@pytest.mark.parametrize("error", [
    MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0"), OSError(12, "Cannot allocate memory"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), RuntimeError("std::bad_alloc"),
    RuntimeError("Unable to cast Python instance of type <class 'int'> to C++ type '?'"),
])  # fmt: skip
def test_the_words_of_allocators_are_known(error: Exception) -> None:
    assert memory.ran_out(error)
    sentence = r"the work: there is not enough memory: .* are free; do less"
    with pytest.raises(MemoryLimitError, match=sentence), memory.enough_for("the work", "do less"):
        raise error


def test_the_words_are_those_that_torch_and_numpy_use() -> None:
    for ask in (lambda: torch.empty(2**61), lambda: torch.empty(2**40, 2**40), lambda: np.empty(2**60, dtype=np.int8)):
        with pytest.raises((RuntimeError, MemoryError, ValueError)) as caught:
            ask()
        assert memory.ran_out(caught.value)
    assert not memory.ran_out(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.slow
def test_a_model_that_does_not_fit_is_not_built() -> None:
    with pytest.raises(MemoryLimitError, match=r"mlp has a tensor of 1000000 x 1000000 numbers, which needs 4 TB"):
        find("mlp")(features=64, classes=10, hidden=(1_000_000, 1_000_000))
    with pytest.raises(MemoryLimitError, match="not enough memory"):
        find("mlp")(features=64, classes=10, hidden=(10**18, 10**18))
    with pytest.raises(MemoryLimitError, match="ddpm: there is not enough memory"):
        find("ddpm")(features=64, timesteps=2**63 - 1)
    with torch.device("meta"):  # where nothing is allocated
        assert find("mlp")(features=64, classes=10, hidden=(1_000_000, 1_000_000)).hparams["features"] == 64


def test_a_model_of_too_many_parts_is_not_built() -> None:
    def make() -> list[torch.Tensor]:
        return [torch.empty(0) for _ in range(MOST_TENSORS + 1)]

    with pytest.raises(MemoryLimitError, match=f"more than {MOST_TENSORS:,} tensors"), Metered("a model"):
        make()


def test_building_under_the_meter_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def built() -> list[torch.Tensor]:
        torch.manual_seed(0)
        return list(find("vae")(features=8).state_dict().values())

    metered = built()
    monkeypatch.setattr(Metered, "_check", lambda *_: None)
    assert all(torch.equal(a, b) for a, b in zip(metered, built(), strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("scarce")
def test_a_training_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    model, data = Toy(features=20_000_000), dc.from_tensors(torch.zeros(2, 20_000_000).normal_())
    with pytest.raises(MemoryLimitError, match=r"training Toy with 20,000,000 parameters needs 240 MB .* 200 MB"):
        dc.fit(model, data, out=tmp_path / "run", quiet=True, optimizer="adam")
    assert not (tmp_path / "run").exists()


class Hungry(Toy):
    """A model that asks for more memory than there is at its third step."""

    steps = 0

    def loss(self, batch: Batch) -> Terms:
        self.steps += 1
        torch.empty(2**60 if self.steps == 3 else 1)
        return super().loss(batch)


def test_a_training_that_runs_out_of_memory_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    data = dc.from_tensors(torch.randn(8, 2))
    with pytest.raises(
        MemoryLimitError, match=r"at step 3 there is not enough memory.*checkpoint is .*batch_size"
    ) as e:
        dc.fit(Hungry(2), data, out=tmp_path, quiet=True, steps=9, batch_size=8, checkpoint_every=1)
    kept = checkpoint.saved(tmp_path / "checkpoints")
    assert str(kept[-1]) in str(e.value)
    assert kept[-1].name.endswith("2")
    resumed = dc.resume(tmp_path, data, model=type("Hungry", (Toy,), {}), quiet=True)
    assert resumed.steps == 9


@pytest.mark.slow
@pytest.mark.usefixtures("scarce")
def test_every_way_to_ask_for_too_much_is_told(tmp_path: Path) -> None:
    photo = tmp_path / "photos" / "cats" / "a.png"
    photo.parent.mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(photo)
    table = tmp_path / "long.csv"
    with table.open("wb") as file:
        file.truncate(300_000_000)
    wide = tmp_path / "wide.csv"
    wide.write_bytes(b"1," * 11_000_000)
    lstm: Any
    deepar: Any
    (lstm, text), (deepar, series) = find("lstm").example(), find("deepar").example()
    ways: dict[str, Any] = {
        r"reading .*long.csv needs 300 MB": lambda: dc.load_data(table),
        r"reading .*wide.csv needs 220 MB": lambda: dc.load_data(wide),
        "an image of 99,999 x 99,999 pixels needs": lambda: dc.load_data(f"{tmp_path / 'photos'}:size=99999"),
        r"1 x 1,000,000,000 tokens to generate needs 8 GB": lambda: lstm.generate(text.x[:1, :1], 10**9),
        "100,000,000 paths of 3 steps for each": lambda: deepar.forecast(series, 3, samples=10**8),
    }
    for sentence, ask in ways.items():
        with pytest.raises(MemoryLimitError, match=sentence) as caught:
            ask()
        assert "200 MB are free; " in str(caught.value)


def test_samples_that_do_not_fit_end_in_a_sentence() -> None:
    with pytest.raises(MemoryLimitError, match="1,000,000,000,000,000 samples of Toy: there is not enough memory"):
        Toy(2).sample(10**15)
