"""Images of all sizes are cut to one, and those that stay in their files give what they give in memory."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import deepcanon as dc
from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.data import load_data, load_rows
from deepcanon.data.images import image_folder
from deepcanon.data.images.image_files import ImageFiles
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.pictures.run_pictures import draw_run


def photographs(folder: Path, modes: tuple[str, ...] = ("RGB", "L", "CMYK", "RGBA")) -> Path:
    """Bright and dark pictures of all sizes and kinds, as people have them."""
    random = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 190)):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            height, width = random.integers(9, 30, size=2)
            pixels = (level + random.integers(-40, 40, size=(height, width, 3))).astype(np.uint8)
            mode = modes[number % len(modes)]
            suffix = "jpg" if mode == "CMYK" else "png"
            Image.fromarray(pixels).convert(mode).save(folder / name / f"{number:02}.{suffix}")
    return folder


def test_images_of_all_sizes_and_kinds_are_cut_to_one(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "a")
    with pytest.raises(DataError, match=r"all images must agree: .* write FOLDER:size=64 to have all cut to 64x64"):
        load_data(str(photographs(tmp_path / "b", modes=("RGB",))))
    data = load_data(f"{folder}:size=8")
    assert data.shape == (3, 8, 8)
    assert data.name == f"{folder}:size=8"
    brightness = data.train.x.mean((1, 2, 3))
    assert torch.equal(brightness > 0.5, data.train.y == 1)


def test_what_is_kept_is_the_square_in_the_middle(tmp_path: Path) -> None:
    """Of stripes that are as wide as the picture is high the one in the middle stays, scaled by a whole factor."""
    stripes = np.repeat(np.array([0, 100, 200], dtype=np.uint8), 12)[None].repeat(12, 0)
    for name in ("wide", "high"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.fromarray(stripes if name == "wide" else stripes.T.copy()).save(tmp_path / name / f"{number}.png")
    x = load_data(f"{tmp_path}:size=4").train.x
    assert x.shape[1:] == (1, 4, 4)
    assert (x[..., 1:3, 1:3] * 255).round().eq(100).all()  # at the rim the scaling looks at one stripe only, too
    random = np.random.default_rng(0).integers(256, size=(12, 12), dtype=np.uint8)
    Image.fromarray(random).save(tmp_path / "high" / "5.png")
    batch = load_rows(str(tmp_path), {"classes": ["high", "wide"], "shape": [1, 12, 12], "levels": 256, "size": 12})
    assert torch.equal((batch.x[5, 0] * 255).round().byte(), torch.from_numpy(random))


def test_new_images_are_cut_as_those_of_the_training(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "a")
    saved = load_data(f"{folder}:size=8").preprocessing
    assert load_rows(str(folder), saved).x.shape == (24, 3, 8, 8)
    assert load_rows(f"{folder}:size=8", saved, labeled=False).x.shape == (24, 3, 8, 8)
    gray_first = photographs(tmp_path / "b", modes=("L", "RGB"))
    assert load_rows(str(gray_first), saved).x.shape == (24, 3, 8, 8)
    with pytest.raises(UsageError, match="new data are read as those of the training were; leave out ':size=16'"):
        load_rows(f"{folder}:size=16", saved)


def test_the_data_are_found_again_in_all_their_forms(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "a")
    data = load_data(f"{folder}:size=8:binary")
    assert data.preprocessing["form"] == "size=8:binary"
    again = load_data(f"{folder}:{data.preprocessing['form']}", preprocessing=data.preprocessing)
    assert again.fingerprint() == data.fingerprint()


@pytest.mark.slow
def test_images_in_files_train_as_images_in_memory_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs(tmp_path / "a")
    ends = []
    for most in (image_folder.IN_MEMORY, 0):
        monkeypatch.setattr(image_folder, "IN_MEMORY", most)
        data = load_data(f"{folder}:size=4")
        assert isinstance(data.train, ImageFiles) == (most == 0)
        torch.manual_seed(0)
        model = SoftmaxRegression(features=48, classes=2)
        result = dc.fit(model, data, epochs=2, batch_size=5, quiet=True)
        ends.append((model.state_dict(), result.test))
    (here, scores), (there, others) = ends
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert scores == others
    drawn = draw_run(model, data, result.history, tmp_path / "pictures", 0)
    assert "confusion" in [picture.stem for picture in drawn]


def test_only_what_is_selected_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs(tmp_path / "a", modes=("RGB",))
    whole = load_data(f"{folder}:size=4").train
    monkeypatch.setattr(image_folder, "IN_MEMORY", 0)
    data = load_data(f"{folder}:size=4")
    before = data.fingerprint()
    assert isinstance(data.train, ImageFiles)
    data.train.files[3].write_bytes(b"broken")
    kept = torch.tensor([0, 2, 4])
    some = data.train.part(torch.arange(6)).select(kept)
    assert type(some) is Labeled
    assert torch.equal(some.x, whole.select(kept).x)
    assert torch.equal(some.y, whole.y[kept])
    with pytest.raises(DataError, match="is not a readable image"):
        data.train.select(torch.tensor([3]))
    assert data.fingerprint() != before
    assert data.with_validation_split(seed=0) is data


def test_files_that_do_not_fit_are_found_before_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_folder, "IN_MEMORY", 0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.fromarray(np.zeros((4, 5, 3), dtype=np.uint8)).save(tmp_path / name / f"{number}.png")
    assert torch.equal(load_data(f"{tmp_path}:binary").train.x.unique(), torch.zeros(1))  # a form is made in memory
    Image.fromarray(np.zeros((4, 6, 3), dtype=np.uint8)).save(tmp_path / "dog" / "odd.png")
    with pytest.raises(DataError, match=r"dog/odd\.png is 6x4 color, but .*cat/0\.png is 5x4 color"):
        load_data(str(tmp_path))


@pytest.mark.parametrize(
    ("suffix", "problem"),
    [
        (":size=big", "images are cut to one size by .*:size=64; got .*:size=big"),
        (":size=0", "images are cut to one size by"),
        (":binary:size=8", "the forms of a file itself come once and first: .*:size=8:binary"),
        (":size=8:size=9", "the forms of a file itself come once and first"),
    ],
)
def test_a_wrong_size_is_answered_with_the_right_form(suffix: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        load_data(f"{photographs(tmp_path / 'a')}{suffix}")


def test_only_folders_are_cut() -> None:
    with pytest.raises(
        UsageError,
        match="':size=4' is a form of a folder of images, whose sizes may differ, and digits is not one; leave it out",
    ):
        load_data("digits:size=4")
