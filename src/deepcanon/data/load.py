"""Loading of data: by a known name, from a file or a folder, with suffixes that choose their form."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.hints import did_you_mean
from deepcanon.core.reading import Reading, check_reading, reading_of
from deepcanon.data import array_file, series_file, sets
from deepcanon.data.dataset import GIVES, Dataset, Kind
from deepcanon.data.entry import Entry
from deepcanon.data.file_kind import FileKind
from deepcanon.data.graphs import edge_list, graph_links, graph_markup, sparse_graph, tu_folder
from deepcanon.data.images import image_folder, image_list
from deepcanon.data.images.image_files import LEVELS
from deepcanon.data.tables import rated, table_file
from deepcanon.data.tables.csv_file import is_csv
from deepcanon.data.tables.profile import Profile, profile
from deepcanon.data.text import labeled_text, pair_file, text_file
from deepcanon.data.text.text_columns import TOKENS
from deepcanon.data.transforms.form_list import PUBLISHED_SPLIT, forms_of
from deepcanon.data.transforms.forms import FORMS, batch_in_form, check_form, in_form

SPREADSHEETS = (".xlsx", ".xls", ".ods")
"""Not read: what a cell holds and what it shows (dates, formulas) differ, and CSV settles which is meant."""


GRAPH_KINDS = (
    edge_list.EDGE_LIST,
    graph_links.GRAPH_LINKS,
    graph_markup.GRAPH_MARKUP,
    sparse_graph.SPARSE_GRAPH,
    tu_folder.TU_FOLDER,
)
"""The kinds of files and folders that hold graphs."""

FILE_KINDS = (
    *GRAPH_KINDS, rated.RATINGS, series_file.SERIES_FILE, image_list.IMAGE_LIST, pair_file.PAIRS,
    labeled_text.LABELED_TEXT, table_file.TABLE, array_file.ARRAY_ROWS, array_file.ARRAY_IMAGES, text_file.TEXT,
    image_folder.IMAGES,
)  # fmt: skip
"""The kinds of files and folders; of several that recognize a path, the first reads it."""


def load_data(
    name: str | Path, *, preprocessing: Mapping[str, Any] | None = None, **reading: Unpack[Reading]
) -> Dataset[Any]:
    """The data of this name: a known set, a file (``.csv``, ``.parquet``, ``.tsv``, ``.npz``, ``.txt``) or a folder.

    ``reading`` are the options of :class:`~deepcanon.core.reading.Reading`: ``target`` names the column of a CSV file
    that is to be predicted, ``nodes`` the table of a graph's nodes. ``preprocessing`` is what an earlier load has
    fitted (``Dataset.preprocessing``); a file or folder is then treated by it. ``file.csv:raw`` leaves the target in
    its own units, ``file.csv:ratings`` holds ratings, ``file.csv:text`` texts, ``file.csv:images`` the paths of images,
    ``file.csv:links`` the edges of a graph, and ``folder:size=64`` cuts images of all sizes to 64x64.
    :mod:`deepcanon.data.transforms.form_list` has all forms: images and videos come as ``name:binary`` too, texts as
    ``name:words``, whatever has classes as ``name:labels=40``, with all other labels hidden.

    >>> load_data("digits:binary").train.x.unique()
    tensor([0., 1.])
    >>> load_data("monos")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: there are no data 'monos'; did you mean moons?
    """
    check_reading(reading)
    asked = reading_of(reading)
    base, forms = _parted(_in_utf8(str(name)))
    kind = None if base in entries() else _file_kind(base, forms, asked)
    own, forms = _own_forms(base, kind, forms)
    if kind is None:
        entry, forms = _of_split(entries()[base], forms)
    gives = entry.kind if kind is None else kind.kind
    for form in forms:  # before a download begins
        check_form(base, gives, form)
    _check_taken(base, gives, kind, asked)
    if kind is None:
        data = entry.load(entry)
    else:
        data = kind.load(Path(base).expanduser(), own, asked, preprocessing)
        data = replace(data, reading={**asked, **data.reading})
    for form in forms:
        data = in_form(data, form)
    return data


def load_rows(
    name: str, preprocessing: Mapping[str, Any], *, labeled: bool = True, reading: Mapping[str, Any] | None = None
) -> AnyBatch:
    """All rows of a file or folder, as new rows for a model whose data had this ``preprocessing`` and ``reading``.

    They are treated as its training data were, and have labels only if these are there; unless they are to be
    ``labeled``, labels are ignored. Of data known by name, the test split is given.
    """
    base, forms = _parted(_in_utf8(name))
    if base in entries():
        known: AnyBatch = load_data(name).split("test")
        return known
    learned = _learned_forms(preprocessing)
    kind = _file_kind(base, (*forms, *learned), reading or {})
    own, forms = _own_forms(base, kind, forms)
    if strange := [form for form in own if form not in learned]:
        raise UsageError(f"new data are read as those of the training were; leave out ':{strange[0]}'")
    for form in forms:
        check_form(base, kind.kind, form)
    batch = kind.apply(Path(base).expanduser(), {**preprocessing, "reading": reading or {}}, labeled)
    for form in (form for form in forms if form in FORMS):  # of new rows no label is hidden
        batch = batch_in_form(batch, form, LEVELS, seed=2)
    return batch


def row_names(name: str, preprocessing: Mapping[str, Any], reading: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What the rows of a file or folder are called, as columns; none of data known by name."""
    base, forms = _parted(name)
    if base in entries():
        return {}
    kind = _file_kind(base, (*forms, *_learned_forms(preprocessing)), reading)
    if kind.names is None:
        return {}
    return dict(kind.names(Path(base).expanduser(), {**preprocessing, "reading": reading}))


def table_path(name: str, preprocessing: Mapping[str, Any], reading: Mapping[str, Any] | None = None) -> Path | None:
    """The CSV file of this name, if it is read as a table by a saved ``preprocessing``; None of all other data."""
    base, forms = _parted(_in_utf8(name))
    learned = _learned_forms(preprocessing)
    if base in entries() or _file_kind(base, (*forms, *learned), reading or {}) is not table_file.TABLE:
        return None
    return Path(base).expanduser() if all(form in learned for form in forms) else None


def image_names(name: str, target: str | None = None) -> tuple[list[str], int]:
    """The images of a folder, or the one, in the order in which they are read, and how many files are none.

    Of a file that names images by the side of a ``target``, they are its paths; those of an array have no names.
    """
    path = Path(_parted(name)[0]).expanduser()
    if is_csv(path):
        return image_list.listed_images(path, target), 0
    if path.suffix.lower() in array_file.SUFFIXES:
        return [], 0
    files = image_folder.images_of(path)
    return [str(file.relative_to(path) if path.is_dir() else file.name) for file in files], image_folder.left_out(path)


def asked_ratings(name: str, items: Sequence[str]) -> tuple[list[str], Tensor] | None:
    """The users of a file of ratings in long form, and whose ratings of these items are asked for; else None."""
    base = _parted(name)[0]
    return None if base in entries() else rated.asked_pairs(Path(base).expanduser(), items)


def kind_of_path(
    name: str, preprocessing: Mapping[str, Any] | None = None, reading: Mapping[str, Any] | None = None
) -> Kind | None:
    """The kind of data that a file or folder holds; None where the name is that of a known data set.

    With the ``preprocessing`` and the ``reading`` of a run it is read as the data of the run were.
    """
    base, forms = _parted(name)
    if base in entries():
        return None
    return _file_kind(base, (*forms, *_learned_forms(preprocessing or {})), reading or {}).kind


def is_known(name: str) -> bool:
    """Whether this names a data set known by name, or nothing that is there, rather than a file or folder.

    >>> is_known("digits:binary"), is_known("nowhere")
    (True, True)
    """
    base, _ = _parted(name)
    return base in entries() or (not Path(base).expanduser().exists() and Path(base).suffix == "")


def profile_of(name: str | Path, **reading: Unpack[Reading]) -> Profile:
    """The profile of the table in a CSV file: what each column holds, and what becomes of it when it is read so."""
    base, forms = _parted(_in_utf8(str(name)))
    kind = _file_kind(base, forms, reading_of(reading))
    check_reading(reading)
    if kind is not table_file.TABLE:
        raise UsageError(f"a profile is of the columns of a table; {name} gives {GIVES[kind.kind]}")
    own, _ = _own_forms(base, kind, forms)
    return profile(Path(base).expanduser(), own, reading_of(reading))


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


def _file_kind(name: str, forms: tuple[str, ...], reading: Mapping[str, Any]) -> FileKind:
    """The kind of the file or folder of this name."""
    path = Path(name).expanduser()
    found = next((kind for kind in FILE_KINDS if kind.recognizes(path, forms, reading_of(reading))), None)
    if found is None:
        raise _unknown(name, path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for, a device may have no end
        raise DataError(f"{name} is a pipe or a device, not a file; write its content to a file first")
    return found


def _of_split(entry: Entry, forms: tuple[str, ...]) -> tuple[Entry, tuple[str, ...]]:
    """The entry of the published split that a form asks for, and the other forms."""
    asked = [form for form in forms if form.startswith(PUBLISHED_SPLIT)]
    if not asked or entry.splits == 1:
        return entry, forms
    number = asked[0].removeprefix(PUBLISHED_SPLIT)
    if forms[: len(asked)] != tuple(asked[:1]) or not number.isascii() or not number.isdigit():
        raise UsageError(f"a published split is chosen once and first: {entry.name}:split=0; got {':'.join(forms)}")
    if int(number) >= entry.splits:
        raise UsageError(f"{entry.name} has {entry.splits} published splits, 0 to {entry.splits - 1}; got {number}")
    name = f"{entry.name}:{PUBLISHED_SPLIT}{int(number)}"
    return replace(entry, name=name, split=int(number)), forms[1:]


def _own_forms(base: str, kind: FileKind | None, forms: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The forms that say how the file itself is read, and the others."""
    own = tuple(form for form in forms if kind is not None and kind.of_its_own(form))
    rest = tuple(form for form in forms if form not in own)
    for form in (form for form in rest if form not in TOKENS and f"{form.partition('=')[0]}=" not in TOKENS):
        having = next((having for each in FILE_KINDS if (having := each.of_its_own(form))), None)
        if having is not None:
            raise UsageError(f"':{form}' is a form of {having}, and {base} is not one; leave it out")
    once = {form.partition("=")[0]: form for form in own}
    if forms != (*once.values(), *rest):
        raise UsageError(f"the forms of a file itself come once and first: {':'.join([base, *once.values(), *rest])}")
    return own, rest


def _learned_forms(preprocessing: Mapping[str, Any]) -> tuple[str, ...]:
    """The forms of files, among those that a model has learned from."""
    forms = preprocessing.get("form", "").split(":")
    return tuple(form for form in forms if any(kind.of_its_own(form) for kind in FILE_KINDS))


def _check_taken(base: str, gives: Kind, kind: FileKind | None, reading: Mapping[str, Any]) -> None:
    """Refuse reading options that these data do not have."""
    for name in (name for name in reading if kind is None or name not in kind.takes):
        one = name if name.endswith("s") else f"a {name}"
        raise UsageError(
            f"{base} gives {GIVES[gives]}, without {one} to choose; leave out the {name} {reading[name]!r}"
        )


def _parted(name: str) -> tuple[str, tuple[str, ...]]:
    """The name without its suffixes, and these in their order.

    >>> _parted("digits:binary:labels=40"), _parted("uci:yacht:split=3")
    (('digits', ('binary', 'labels=40')), ('uci:yacht', ('split=3',)))
    """
    base, mark, form = name.rpartition(":")
    if not mark or name in entries() or Path(name).exists():
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


def _unknown(name: str, path: Path) -> UsageError:
    if path.suffix.lower() in SPREADSHEETS:
        return DataError(f"{name} is a spreadsheet; save the sheet that is meant as CSV (UTF-8, with commas)")
    if path.exists():
        return DataError(
            f"{name} is neither a CSV file (its name must end in .csv), Parquet (.parquet), pairs of texts (.tsv), an "
            "array (.npy, .npz), a graph (.graphml, .gml) or a text (.txt), nor a folder of images, texts or graphs"
        )
    if len(path.parts) > 1:
        return DataError(f"there is no file or folder {name}")
    if collected := [entry for entry in entries() if entry.startswith(f"{name}:")]:
        return UsageError(f"{name} are several data sets: {', '.join(collected)}; say which")
    return UsageError(f"there are no data {name!r}; {did_you_mean(name, entries())}")


def _row(entry: Entry) -> dict[str, Any]:
    counts = entry.counts or _counted(entry.name)
    return {
        "name": entry.name,
        "kind": entry.kind,
        "shape": list(entry.shape),
        "sizes": dict(entry.sizes),
        **dict(zip(("train", "valid", "test"), counts, strict=True)),
        "forms": {form.suffix: form.gives for form in forms_of(entry.name, entry.kind, entry.sizes, entry.splits)},
        "source": entry.source,
        "folder": entry.remote.folder,
        "here": entry.remote.here(),
        "downloadable": bool(entry.remote.mirrors),
    }


@cache
def _counted(name: str) -> tuple[int, ...]:
    """The numbers of examples of data whose entry does not say them, counted once."""
    entry = entries()[name]
    data = entry.load(entry)
    return tuple(len(data.split(part)) for part in ("train", "valid", "test"))
