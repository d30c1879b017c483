"""Loading of data: by a known name, from a CSV or text file or a folder, with suffixes that choose their form."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.hints import did_you_mean
from deepcanon.data import sets
from deepcanon.data.dataset import Dataset, Kind
from deepcanon.data.entry import Entry
from deepcanon.data.images import image_folder
from deepcanon.data.images.image_files import LEVELS, SUFFIXES
from deepcanon.data.tables import rated, table
from deepcanon.data.text import text_file
from deepcanon.data.transforms.form_list import forms_of
from deepcanon.data.transforms.forms import FORMS, batch_in_form, check_form, in_form

SPREADSHEETS = (".xlsx", ".xls", ".ods")
"""Not read: what a cell holds and what it shows (dates, formulas) differ, and CSV settles which is meant."""


def load_data(
    name: str | Path, *, target: str | None = None, preprocessing: Mapping[str, Any] | None = None
) -> Dataset[Any]:
    """The data of this name: a known set, ``file.csv``, ``file.txt``, or a folder of images by class or of texts.

    ``target`` names the column of a CSV file that is to be predicted. ``preprocessing`` is what an earlier load has
    fitted (``Dataset.preprocessing``); a file or folder is then treated by it. ``file.csv:raw`` leaves the target in
    its own units, ``file.csv:ratings`` holds the ratings of a user in each row, and ``folder:size=64`` cuts images of
    all sizes to 64x64. :mod:`deepcanon.data.transforms.form_list` has all forms: images and videos come as
    ``name:binary`` too, texts as ``name:words``, whatever has classes as ``name:labels=40``, with all other labels
    hidden.

    >>> load_data("digits:binary").train.x.unique()
    tensor([0., 1.])
    >>> load_data("monos")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: there are no data 'monos'; did you mean moons?
    """
    base, forms = _parted(_in_utf8(str(name)))
    size, forms = _sized(base, forms)
    raw, forms = _of_a_file(base, forms, table.RAW)
    ratings, forms = _of_a_file(base, forms, rated.MARK)
    for form in forms:  # before a download begins
        check_form(base, _kind(base), form)
    if ratings:
        return _rated(base, target, preprocessing, raw, forms)
    data = _plain(base, target, preprocessing, size, raw)
    for form in forms:
        data = in_form(data, form)
    return data


def load_rows(name: str, preprocessing: Mapping[str, Any], *, labeled: bool = True) -> AnyBatch:
    """All rows of a file or folder, as new rows for a model whose data had this ``preprocessing``.

    They are treated as its training data were, and have labels only if these are there; unless they are to be
    ``labeled``, labels are ignored. Of data known by name, the test split is given.
    """
    base, forms = _parted(_in_utf8(name))
    if base in entries():
        known: AnyBatch = load_data(name).split("test")
        return known
    kind, path = _kind(base), Path(base).expanduser()
    size, forms = _sized(base, forms)
    _, forms = _of_a_file(base, forms, table.RAW)  # new rows are treated as those of the training were
    ratings, forms = _of_a_file(base, forms, rated.MARK)
    if size not in (None, preprocessing.get("size")):
        raise UsageError(f"new images are cut as those of the training were; leave out ':{image_folder.MARK}{size}'")
    for form in forms:
        check_form(base, kind, form)
    if ratings:
        return rated.apply(path, preprocessing)
    if kind == "text":  # in the tokens and windows of the training, whatever form is said
        return text_file.apply(path, preprocessing)
    batch = (table.apply if kind == "table" else image_folder.apply)(path, preprocessing, labeled)
    for form in (form for form in forms if form in FORMS):  # of new rows no label is hidden
        batch = batch_in_form(batch, form, LEVELS, seed=2)
    return batch


def image_names(name: str) -> tuple[list[str], int]:
    """The images of a folder, or the one, in the order in which they are read, and how many files are none."""
    path = Path(_parted(name)[0]).expanduser()
    files = image_folder.images_of(path)
    return [str(file.relative_to(path) if path.is_dir() else file.name) for file in files], image_folder.left_out(path)


def kind_of_path(name: str) -> Kind | None:
    """The kind of data that a file or folder holds; None where the name is that of a known data set."""
    base, _ = _parted(name)
    return None if base in entries() else _kind(base)


def absolute_name(name: str) -> str:
    """The name by which the same data are found from any folder: of a file or folder, with its absolute path.

    >>> absolute_name("digits:binary")
    'digits:binary'
    """
    base, forms = _parted(name)
    path = Path(base).expanduser()
    if base in entries() or not path.exists():
        return name
    return ":".join([str(path.resolve()), *forms])


def describe_data(name: str | None = None) -> list[dict[str, Any]]:
    """What is known by name, one row per data set, or the row of one, in plain values; nothing is downloaded."""
    if name is not None and name not in entries():
        if Path(name).expanduser().exists():
            raise UsageError(f"{name} is a file or folder of yours; what is described are the data sets known by name")
        raise _unknown(name, Path(name).expanduser())
    return [_row(entry) for entry in entries().values() if name in (None, entry.name)]


@cache
def entries() -> Mapping[str, Entry]:
    """The data sets of :mod:`deepcanon.data.sets` by name; those without a download come first."""
    names = [module.name for module in pkgutil.iter_modules(sets.__path__)]
    modules = [importlib.import_module(f"{sets.__name__}.{name}") for name in names]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Entry)]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: (len(entry.remote.files), entry.name))}


def _plain(
    name: str, target: str | None, preprocessing: Mapping[str, Any] | None, size: int | None, raw: bool
) -> Dataset[Any]:
    entry, kind, path = entries().get(name), _kind(name), Path(name).expanduser()
    if entry is None and kind == "table":
        return table.load(path, target, preprocessing, raw)
    if target is not None:
        raise UsageError(f"a target is a column of a CSV file, and {name} is not one; leave out the target {target!r}")
    if entry is None and kind == "text":
        return text_file.load(path, preprocessing)
    return image_folder.load(path, preprocessing, size) if entry is None else entry.load(entry)


def _kind(name: str) -> Kind:
    """The kind of the data of this name, which are a known set, a CSV or text file or a folder."""
    path = Path(name).expanduser()
    if name in entries():
        return entries()[name].kind
    if text_file.is_text(path):
        return "text"
    if path.is_dir() or (path.is_file() and path.suffix.lower() in SUFFIXES):
        return "images"
    if path.suffix.lower() == ".csv":
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device may have no end
            raise DataError(f"{name} is a pipe or a device, not a file; write its content to a file first")
        return "table"
    raise _unknown(name, path)


def _parted(name: str) -> tuple[str, tuple[str, ...]]:
    """The name without its suffixes, and these in their order.

    >>> _parted("digits:binary:labels=40")
    ('digits', ('binary', 'labels=40'))
    """
    base, mark, form = name.rpartition(":")
    if not mark or Path(name).exists():
        return name, ()
    base, forms = _parted(base)
    return base, (*forms, form)


def _in_utf8(name: str) -> str:
    """The name, if it can be written down; names of files may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DataError(f"the name {name!r} is not UTF-8; rename the file or folder") from None
    return name


def _sized(base: str, forms: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """The size to which the images of a folder are to be cut, and the other forms."""
    asked = [form for form in forms if form.startswith(image_folder.MARK)]
    if not asked:
        return None, forms
    if base in entries() or _kind(base) != "images":
        raise UsageError(f"{base} is not a folder of images, whose sizes may differ; leave out ':{asked[0]}'")
    if forms[0] != asked[0] or len(asked) > 1:
        raise UsageError(f"the size comes once and first: {base}:{':'.join([asked[0], *set(forms) - set(asked)])}")
    return image_folder.read_form(base, asked[0]), forms[1:]


def _of_a_file(base: str, forms: tuple[str, ...], mark: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a CSV file is to be read in a way of its own, and the other forms."""
    if mark not in forms:
        return False, forms
    if base in entries() or _kind(base) != "table":
        what = "whose target may be left as it is" if mark == table.RAW else "which may hold ratings"
        raise UsageError(f"{base} is not a CSV file, {what}; leave out ':{mark}'")
    return True, tuple(form for form in forms if form != mark)


def _rated(
    name: str, target: str | None, preprocessing: Mapping[str, Any] | None, raw: bool, forms: tuple[str, ...]
) -> Dataset[Any]:
    """The ratings of a CSV file, which have no target and no other form."""
    if target is not None or raw or forms:
        extra = f"the target {target!r}" if target is not None else f"':{table.RAW if raw else forms[0]}'"
        raise UsageError(f"{name}:{rated.MARK} are ratings of items by users; leave out {extra}")
    return rated.load(Path(name).expanduser(), preprocessing)


def _unknown(name: str, path: Path) -> UsageError:
    if path.suffix.lower() in SPREADSHEETS:
        return DataError(f"{name} is a spreadsheet; save the sheet that is meant as CSV (UTF-8, with commas)")
    if path.exists():
        return DataError(
            f"{name} is neither a CSV file (its name must end in .csv) nor a text (in .txt) "
            "nor a folder of images or texts"
        )
    if len(path.parts) > 1:
        return DataError(f"there is no file or folder {name}")
    return UsageError(f"there are no data {name!r}; {did_you_mean(name, entries())}")


def _row(entry: Entry) -> dict[str, Any]:
    counts = entry.counts
    if not counts:
        data = entry.load(entry)
        counts = tuple(len(data.split(part)) for part in ("train", "valid", "test"))
    return {
        "name": entry.name,
        "kind": entry.kind,
        "shape": list(entry.shape),
        "sizes": dict(entry.sizes),
        **dict(zip(("train", "valid", "test"), counts, strict=True)),
        "forms": {form.suffix: form.gives for form in forms_of(entry.kind, entry.sizes)},
        "source": entry.source,
        "folder": entry.remote.folder,
        "here": entry.remote.here(),
        "downloadable": bool(entry.remote.mirrors),
    }
