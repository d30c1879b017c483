"""Files as the studio reads them: never what a link leads to, which may be any file of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from deepcanon.core.stored import read_file

MOST_SHOWN = 2**26
"""The bytes of a picture or a page beyond which it is not shown."""


def is_plain(path: str | Path) -> bool:
    """Whether this is a file: no link, and no pipe or device, to open which would wait for ever."""
    return os.path.isfile(path) and not os.path.islink(path)


def bytes_of(path: Path) -> bytes:
    """The content of a picture or a page for a browser, unless it has more bytes than a server should hold."""
    return read_file(path, MOST_SHOWN)
