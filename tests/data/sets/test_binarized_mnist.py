"""The fixed binarization is recognized by its bits, and who has not got it is told where to put it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.sets import binarized_mnist
from deepcanon.data.sets.binarized_mnist import BINARIZED_MNIST

NAME = "binarized_mnist_fixed.npz"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "binarized-mnist").mkdir()
    return tmp_path / "binarized-mnist"


def test_a_missing_file_is_an_error_that_says_where_to_put_it(folder: Path) -> None:
    with pytest.raises(DataError, match=rf"put {NAME} into {folder} \(another folder: set DEEPCANON_DATA\)"):
        load_data("binarized-mnist")


def test_bits_come_out_as_they_were_packed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = {part: np.random.default_rng(i).integers(2, size=(3 + i, 784), dtype=np.uint8)
            for i, part in enumerate(("train", "valid", "test"))}  # fmt: skip
    packed = {part: np.packbits(rows, axis=1) for part, rows in bits.items()}
    np.savez(folder / NAME, **{f"{part}_packed": rows for part, rows in packed.items()})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="train_packed does not hold the published bits"):
        load_data("binarized-mnist")
    digests = {part: hashlib.sha256(rows.tobytes()).hexdigest() for part, rows in packed.items()}
    monkeypatch.setattr(binarized_mnist, "SHA256", digests)
    data = load_data("binarized-mnist")
    for part, rows in bits.items():
        assert torch.equal(data.split(part).x.flatten(1), torch.from_numpy(rows).float())
        assert data.split(part).x.shape[1:] == data.shape


def test_a_flipped_bit_anywhere_is_a_sentence_or_harmless(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does to the zip file: a DataError, or the right bits where it has met nothing that is read."""
    rows = {part: np.random.default_rng(i).integers(256, size=(3, 98), dtype=np.uint8)
            for i, part in enumerate(("train", "valid", "test"))}  # fmt: skip
    digests = {part: hashlib.sha256(each.tobytes()).hexdigest() for part, each in rows.items()}
    monkeypatch.setattr(binarized_mnist, "SHA256", digests)
    np.savez_compressed(folder / NAME, **{f"{part}_packed": each for part, each in rows.items()})  # type: ignore[arg-type]
    whole, wanted = (folder / NAME).read_bytes(), load_data("binarized-mnist").fingerprint()
    refused = []
    for bit in range(0, 8 * len(whole), 71):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        (folder / NAME).write_bytes(content)
        try:
            assert load_data("binarized-mnist").fingerprint() == wanted
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 8 * len(whole) / 71 * 0.5
    assert all(NAME in sentence for sentence in refused)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_what_is_no_archive_is_refused(content: bytes, folder: Path) -> None:
    (folder / NAME).write_bytes(content)
    with pytest.raises(DataError, match="is not a NumPy archive with train_packed"):
        load_data("binarized-mnist")


@pytest.mark.slow
@pytest.mark.skipif(not BINARIZED_MNIST.remote.here(), reason="the file is not on this machine; set DEEPCANON_DATA")
def test_the_real_set() -> None:
    data = load_data("binarized-mnist")
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [50000, 10000, 10000]
    # Independent pixels with the training set's rates: the baseline of 206 to 207 nats that everyone starts from.
    rates = ((data.train.x.flatten(1).double().sum(0) + 1) / 50002).clamp(1e-6, 1 - 1e-6)
    test = data.split("test").x.flatten(1).double()
    nll = -(test * rates.log() + (1 - test) * (1 - rates).log()).sum(1).mean()
    assert 205 < nll < 208
