"""Images by a table of their files, ``FILE.csv:images``: a column of paths and, if a target is named, one of labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.file_kind import FileKind
from deepcanon.data.images.image_files import LEVELS, ImageFiles
from deepcanon.data.images.image_folder import MARK as SIZE
from deepcanon.data.images.image_folder import held, read_form, reader_for
from deepcanon.data.split import cut, fixed_random, three_counts
from deepcanon.data.tables.csv_file import is_csv
from deepcanon.data.tables.prepared_table import all_labels_of, fit_target, labels_of
from deepcanon.data.tables.table_columns import Category, column_as_json, column_from_json
from deepcanon.data.text.text_columns import TextFile, read_texts

MARK = "images"
"""The form of a file that names images."""

PATHS = ("path", "file", "image", "filename", "file_name", "image_path")
"""The names of the column of paths, in upper or lower case; of several, the first of these."""


def load(path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None) -> Dataset[Any]:
    """The images that a file names, split by a fixed seed and stratified by class.

    Their paths are relative to the folder of the file. The target gives classes or numbers by the rules of a table;
    without one the images have no labels. Other columns are not read.
    """
    asked = [form for form in forms if form != MARK]
    size = read_form(str(path), *asked) if asked else None
    file, target = read_texts(path), reading.get("target")
    images, column = _images(file, target)
    reader = reader_for(path, images[0], preprocessing, size)
    fitted: dict[str, Any] = {"shape": list(reader.shape), "levels": LEVELS, "form": ":".join([MARK, *asked])}
    fitted |= {"size": size} if size else {}
    train: Any
    valid: Any
    test: Any
    if target is None:
        counts = three_counts(len(images), str(path))
        parts = cut(fixed_random(0).permutation(len(images)), counts)
        train, valid, test = (Batch(reader([images[row] for row in rows.tolist()])) for rows in parts)
        classes: tuple[str, ...] = ()
        sizes = image_sizes(reader.shape)
    else:
        labels = file.only(target)
        known, parts = fit_target(labels, target)
        if preprocessing is not None:
            known = column_from_json(preprocessing["target"])
        y = all_labels_of(labels, known)
        whole = ImageFiles(images, y, reader)
        train, valid, test = (held(whole.part(rows)) for rows in parts)
        classes = known.values if isinstance(known, Category) else ()
        sizes = image_sizes(reader.shape, classes=len(classes) or None) | ({} if classes else {"targets": 1})
        fitted |= {"columns": [], "target": column_as_json(known)}
    ignored = [name for name in file.names if name not in (column, target)]
    return Dataset(
        name=f"{path}:{fitted['form']}",
        kind="images",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=reader.shape,
        labels=classes,
        source=str(path.resolve()),
        target=target,
        preprocessing=fitted,
        remarks=(f"Of {path}, the columns {column!r} and {target!r} are read, and not {listed(ignored)}.",)
        if ignored
        else (),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Batch:
    """All images that a file names, for a model trained on others, with labels if all rows have one."""
    file, saved = read_texts(path), preprocessing.get("target")
    images, _ = _images(file, saved["name"] if saved else None)
    reader = reader_for(path, images[0], preprocessing, preprocessing.get("size"))
    if labeled and saved and saved["name"] in file.names:
        target = column_from_json(saved)
        y = labels_of(file.only(target.name), target)
        if y is not None:
            return held(ImageFiles(images, y, reader))
    return Batch(reader(images))


def listed_images(path: Path, target: str | None) -> list[str]:
    """The paths of the images as a file has them."""
    file = read_texts(path)
    return list(file.column(_path_column(file, target)))


def _images(file: TextFile, target: str | None) -> tuple[list[Path], str]:
    """The files of the images, each of which is there, and the column that names them."""
    column = _path_column(file, target)
    images = []
    for row, text in enumerate(file.column(column)):
        image = file.path.parent / Path(text).expanduser() if text else None
        if image is None or not image.is_file():
            raise DataError(
                f"{file.place(row)}, column {column!r}: there is no image {text!r}; paths are relative to the folder "
                "of the file"
            )
        images.append(image)
    return images, column


def _path_column(file: TextFile, target: str | None) -> str:
    lower = {name.lower(): name for name in reversed(file.names)}
    found = next((lower[name] for name in PATHS if name in lower and lower[name] != target), None)
    others = [name for name in file.names if name != target]
    if found is None and len(others) != 1:
        raise UsageError(
            f"{file.path} names images in a column called {', '.join(PATHS[:3])} or {PATHS[3]}; it has {listed(others)}"
        )
    return found or others[0]


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return MARK in forms and is_csv(path)


IMAGE_LIST = FileKind(
    "images",
    _recognizes,
    load,
    apply,
    takes=frozenset({"target"}),
    forms={MARK: "a CSV file of the paths of images", SIZE: "a folder of images, whose sizes may differ"},
)
