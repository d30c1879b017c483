"""Folders of images give back every pixel; the odd one out is named."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from deepcanon import Run
from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.data import load_data, load_rows
from deepcanon.data.images.image_folder import apply, read_image

Pixels = dict[str, list[NDArray[np.uint8]]]


def animals(channels: int = 3) -> Pixels:
    random = np.random.default_rng(0)
    shape = (4, 5, 3) if channels == 3 else (4, 5)
    return {
        name: [random.integers(256, size=shape, dtype=np.uint8) for _ in range(count)]
        for name, count in (("cat", 20), ("dog", 10))
    }


def write(folder: Path, images: Pixels) -> Path:
    for name, pixels in images.items():
        (folder / name).mkdir(parents=True)
        for number, image in enumerate(pixels):
            Image.fromarray(image).save(folder / name / f"{number:02}.png")
    return folder


@pytest.mark.parametrize("channels", [1, 3])
def test_every_pixel_comes_back(channels: int, tmp_path: Path) -> None:
    images = animals(channels)
    data = load_data(write(tmp_path / "a", images))
    found = {
        (int(label), image.permute(1, 2, 0).contiguous().numpy().tobytes())
        for part in ("train", "valid", "test")
        for image, label in zip((data.split(part).x * 255).round().to(torch.uint8), data.split(part).y, strict=True)
    }
    assert found == {(label, image.tobytes()) for label, name in enumerate(images) for image in images[name]}
    assert len(found) == 30
    assert data.labels == ("cat", "dog")
    assert data.shape == (channels, 4, 5)
    assert dict(data.sizes) == {
        "features": 20 * channels, "channels": channels, "height": 4, "width": 5, "classes": 2,
    }  # fmt: skip


def test_the_split_is_stratified(tmp_path: Path) -> None:
    data = load_data(write(tmp_path / "a", animals()))
    counts = [data.split(part).y.bincount().tolist() for part in ("train", "valid", "test")]
    assert counts == [[14, 7], [2, 1], [4, 2]]


def test_jpegs_are_read_and_other_files_left_aside(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals())
    Image.fromarray(np.full((4, 5, 3), 200, dtype=np.uint8)).save(folder / "dog" / "bright.JPG", quality=95)
    (folder / "dog" / "notes.txt").write_text("no image")
    (folder / "dog" / ".hidden.png").write_text("no image")
    (folder / ".cache").mkdir()
    everything = apply(folder, load_data(folder).preprocessing)
    assert len(everything) == 31
    assert (everything.x[-1] * 255 - 200).abs().max() <= 2


def test_forms_work_on_folders(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals())
    plain, noisy, binary = (load_data(f"{folder}{form}") for form in ("", ":dequantized", ":binary"))
    assert torch.equal((noisy.train.x * 256).floor(), (plain.train.x * 255).round())
    assert torch.equal(binary.train.x, (plain.train.x >= 0.5).float())
    rows = load_rows(f"{folder}:binary", json.loads(json.dumps(binary.preprocessing)))
    assert torch.equal(rows.x, (apply(folder, plain.preprocessing).x >= 0.5).float())


def test_new_images_keep_the_codes_of_training(tmp_path: Path) -> None:
    images = animals()
    saved = json.loads(json.dumps(load_data(write(tmp_path / "a", images)).preprocessing))
    new = apply(write(tmp_path / "b", {"dog": images["dog"]}), saved)
    assert isinstance(new, Labeled)
    assert new.y.tolist() == [1] * 10
    flat = apply(tmp_path / "b" / "dog", saved)
    assert type(flat) is Batch
    assert torch.equal(flat.x, new.x)


def test_saved_preprocessing_loads_the_same_data(tmp_path: Path) -> None:
    data = load_data(str(write(tmp_path / "a", animals())))
    again = load_data(str(tmp_path / "a"), preprocessing=json.loads(json.dumps(data.preprocessing)))
    assert again.fingerprint() == data.fingerprint()
    assert again.preprocessing == data.preprocessing


def test_an_unseen_class_or_another_shape_is_named(tmp_path: Path) -> None:
    images = animals()
    saved = load_data(write(tmp_path / "a", images)).preprocessing
    with pytest.raises(DataError, match=r"cow is a class that does not occur .* have cat, dog"):
        apply(write(tmp_path / "b", {"cow": images["dog"]}), saved)
    with pytest.raises(DataError, match="are 5x4 gray, but the training data are 5x4 color"):
        apply(write(tmp_path / "c", animals(channels=1)), saved)
    with pytest.raises(DataError, match="are 5x4 gray, but"):
        apply(tmp_path / "c" / "cat", saved)
    with pytest.raises(DataError, match="not that of a folder of images: it has columns"):
        load_data(tmp_path / "a", preprocessing={"columns": []})


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        (np.zeros((4, 6, 3), dtype=np.uint8), r"dog/odd\.png is 6x4 color, but .*cat/00\.png is 5x4 color"),
        (np.zeros((4, 5), dtype=np.uint8), r"dog/odd\.png is 5x4 gray, but .*cat/00\.png is 5x4 color"),
        (np.zeros((4, 5, 4), dtype=np.uint8), r"dog/odd\.png has transparent pixels; put it onto a background"),
        (np.zeros((4, 5), dtype=np.uint16), r"dog/odd\.png has the mode I;16; convert it"),
    ],
)
def test_the_odd_image_is_named(odd: NDArray[np.uint8], problem: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals())
    Image.fromarray(odd).save(folder / "dog" / "odd.png")
    with pytest.raises(DataError, match=problem):
        load_data(folder)


@pytest.mark.parametrize("suffix", ["png", "webp", "bmp", "gif", "tiff", "ppm", "tga"])
def test_images_of_all_formats_are_read_as_pillow_reads_them(suffix: str, tmp_path: Path) -> None:
    folder, images = write(tmp_path / "a", animals()), animals()
    for file in sorted((folder / "dog").iterdir())[:2]:
        with Image.open(file) as image:
            image.save(file.with_suffix(f".{suffix}"), lossless=True)
        if suffix != "png":
            file.unlink()
    data = load_data(folder)
    everything = [part for part in (data.train, data.valid, data.test) if part is not None]
    assert sum(len(part) for part in everything) == sum(map(len, images.values()))
    with Image.open(folder / "dog" / f"00.{suffix}") as image:
        wanted = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1) / 255
    rows = torch.cat([part.x for part in everything])
    assert (rows == wanted).flatten(1).all(1).any()


def test_black_and_white_palettes_and_opaque_alpha_are_gray_or_color_and_films_are_refused(tmp_path: Path) -> None:
    plain = Image.fromarray(animals(channels=1)["cat"][0])
    for mode, shape in (("1", (1, 4, 5)), ("P", (3, 4, 5)), ("RGBA", (3, 4, 5)), ("LA", (1, 4, 5))):
        plain.convert(mode).save(tmp_path / f"{mode}.png")
        assert tuple(read_image(tmp_path / f"{mode}.png").x.shape[1:]) == shape
    film = tmp_path / "film.gif"
    plain.save(film, save_all=True, append_images=[plain.rotate(180)])
    with pytest.raises(DataError, match=r"film.gif has 2 frames; save those that are meant"):
        read_image(film)


def test_one_image_is_predicted_but_not_trained_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals())
    data = load_data(folder)
    image = folder / "cat" / "00.png"
    assert torch.equal(load_rows(str(image), data.preprocessing, labeled=False).x, read_image(image).x)
    with pytest.raises(DataError, match="is one image; a model is trained on a folder of them"):
        load_data(str(image))


@pytest.mark.parametrize("kept", [0, 10, 40, 70])
def test_a_damaged_image_is_named(kept: int, tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals())
    image = folder / "dog" / "03.png"
    image.write_bytes(image.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"dog/03\.png is not a readable image"):
        load_data(folder)


def test_images_without_classes_are_data_for_models_that_need_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", animals(channels=1)) / "cat"
    data = load_data(str(folder))
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [14, 2, 4]
    assert not isinstance(data.train, Labeled)
    assert dict(data.sizes) == {"features": 20, "channels": 1, "height": 4, "width": 5}
    everything = torch.cat([data.split(part).x for part in ("train", "valid", "test")])
    assert {row.numpy().tobytes() for row in everything} == {
        row.numpy().tobytes() for row in apply(folder, data.preprocessing).x
    }
    again = load_data(str(folder), preprocessing=json.loads(json.dumps(data.preprocessing)))
    assert again.fingerprint() == data.fingerprint()
    assert set(load_data(f"{folder}:size=4:binary").train.x.unique().tolist()) == {0.0, 1.0}
    run = Run.train("vae", f"{folder}:dequantized", out=tmp_path / "run", quiet=True, steps=2)
    assert run.evaluate()["test"].keys() == run.scores["test"].keys()
    assert (
        run.evaluate(f"{tmp_path / 'a'}:dequantized")["test"].keys() == run.evaluate(folder)["test"].keys()
    )  # no classes
    assert len(load_rows(str(tmp_path / "a"), data.preprocessing)) == 30
    with pytest.raises(UsageError, match=r"mlp learns from labeled examples; .*cat gives images without labels"):
        Run.train("mlp", folder, out=tmp_path / "none", quiet=True)


def test_folders_without_classes_or_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"has neither images \(\.png, .* \.\.\.\) nor a sub-folder of them for each class"
    ):
        load_data(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"cat has no images \(\.png, \.jpg, \.jpeg, \.webp, .*\)"):
        load_data(tmp_path)
    write(tmp_path / "few", {"cat": animals()["cat"][:4]})
    with pytest.raises(DataError, match="has 4 examples; at least 5"):
        load_data(tmp_path / "few")


@pytest.mark.parametrize("names", [("train", "val"), ("train", "valid", "test")], ids="-".join)
def test_what_is_split_already_stays_so(names: tuple[str, ...], tmp_path: Path) -> None:
    images = animals()
    few = {"dog": images["dog"][:2]}  # a split need not have all classes, and codes stay those of the training split
    for name in names:
        write(tmp_path / "a" / name, images if name == "train" else few)
    data = load_data(str(tmp_path / "a"))
    assert data.labels == ("cat", "dog")
    assert data.train.y.bincount().tolist() == [20, 10]
    expected = torch.from_numpy(np.stack(few["dog"])).permute(0, 3, 1, 2)
    for part in (data.split(name) for name in (("valid", "test") if "test" in names else ("valid",))):
        assert part.y.tolist() == [1, 1]
        assert torch.equal((part.x * 255).round().to(torch.uint8), expected)
    assert ("test" in names) or data.test is None


def test_a_part_with_a_class_of_its_own_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train", animals())
    write(tmp_path / "val", {"owl": animals()["dog"]})
    with pytest.raises(DataError, match="owl is a class that does not occur in the training data, which have cat, dog"):
        load_data(tmp_path)


@pytest.mark.parametrize("names", [("train", "bus"), ("train", "val")], ids="-".join)
def test_classes_that_happen_to_be_called_like_parts_are_classes(names: tuple[str, str], tmp_path: Path) -> None:
    assert load_data(write(tmp_path, dict(zip(names, animals().values(), strict=True)))).labels == tuple(sorted(names))


@pytest.mark.parametrize("name", ["zz.png", "00.png"])
def test_a_pipe_among_the_images_is_named_and_not_waited_for(name: str, tmp_path: Path) -> None:
    for number in range(12):
        place = tmp_path / "ab"[number % 2]
        place.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(place / f"{number + 1:02}.png")
    os.mkfifo(tmp_path / "a" / name)
    with pytest.raises(DataError, match=f"{name} is a pipe, a device or a folder, not an image"):
        load_data(tmp_path)


def test_a_class_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "a.png")
    with pytest.raises(DataError, match="which is not UTF-8; rename the folder"):
        load_data(tmp_path)
    with pytest.raises(DataError, match="is not UTF-8; rename the file or folder"):
        load_data(folder)
