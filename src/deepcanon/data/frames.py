"""Data frames of pandas and polars, Arrow tables and data sets of Hugging Face, read as a file of their columns is.

None of these libraries is imported: all of them give their columns as Arrow's. These are written to a temporary file,
which is read as the Parquet file of the user's own is, so that one set of rules says what columns become.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from deepcanon.core import DataError, DeepcanonError
from deepcanon.core.reading import Reading, is_frame
from deepcanon.data.dataset import Dataset
from deepcanon.data.load import load_data
from deepcanon.data.tensors import SOURCE

FILE = "data.feather"
INDEX = re.compile(r"__index_level_\d+__")
"""The name of an index of pandas that has none."""


def of_frame(
    frame: Any,
    *,
    form: str | None = None,
    name: str = "data frame",
    preprocessing: Any = None,
    **reading: Unpack[Reading],
) -> Dataset[Any]:
    """The data set of a frame, in the ``form`` that a file of its columns may have: ``ratings``, ``text`` ...

    >>> import pyarrow as pa
    >>> of_frame(pa.table({"a": range(10), "b": range(10)}), target="b").says
    "data frame gives rows of a table (1 feature, 1 target, target 'b'): 7 to train, 1 to validate, 2 to test."
    """
    with as_file(frame, name) as path:
        data = load_data(f"{path}:{form}" if form else path, preprocessing=preprocessing, **reading)
    said = tuple(remark.replace(str(path), name) for remark in data.remarks)
    return replace(data, name=f"{name}:{form}" if form else name, source=SOURCE, remarks=said)


@contextmanager
def as_file(data: Any, name: str = "data frame") -> Iterator[Any]:
    """A file with the columns of a frame while it is needed; anything else as it is."""
    if not is_frame(data):
        yield data
        return
    table = arrow_table(data)
    with TemporaryDirectory(prefix="deepcanon-") as folder:
        from pyarrow import feather

        path = Path(folder) / FILE
        feather.write_feather(table, path, compression="uncompressed")
        try:
            yield path
        except DeepcanonError as error:
            raise type(error)(str(error).replace(str(path), name)) from error


def arrow_table(frame: Any) -> Any:
    """The columns of a frame as an Arrow table; classes of Hugging Face by their names, no unnamed index of pandas."""
    import pyarrow as pa

    if hasattr(frame, "with_format"):
        table = frame.with_format("arrow")[:]
        names = {name: getattr(kind, "names", None) for name, kind in getattr(frame, "features", {}).items()}
        for name in (name for name, classes in names.items() if classes):
            words = pa.array(names[name])
            coded = table.column(name).combine_chunks()
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.DictionaryArray.from_arrays(coded, words))
    elif hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
    else:
        from pyarrow import interchange

        table = interchange.from_dataframe(frame)
    if strange := next((name for name in table.column_names if not isinstance(name, str) or not name.strip()), None):
        raise DataError(f"a data frame has a column without a name ({strange!r}); name it or take it out")
    if twice := next((name for name in table.column_names if table.column_names.count(name) > 1), None):
        raise DataError(f"a data frame has two columns named {twice!r}; every column needs a name of its own")
    return table.select([name for name in table.column_names if not INDEX.fullmatch(name)]).replace_schema_metadata()
