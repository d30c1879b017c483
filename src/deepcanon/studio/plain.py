"""Files as the studio reads them: never what a link leads to, which may be any file of the user's."""

from __future__ import annotations

import os
from pathlib import Path


def is_plain(path: str | Path) -> bool:
    """Whether this is a file: no link, and no pipe or device, to open which would wait for ever."""
    return os.path.isfile(path) and not os.path.islink(path)
