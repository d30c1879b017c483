"""Findings, the results of insights and studies: numbers, a figure and sentences."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from deepcanon.core.display import Shown, image, notebook, sentences, table
from deepcanon.core.files import with_folder, writable, write_json, write_whole


class Figure(Protocol):
    """The part of a matplotlib figure that a finding needs."""

    def savefig(self, fname: Any, *, format: str) -> None: ...


@dataclass(frozen=True)
class Finding(Shown):
    """The result of an insight or a study: numbers, a figure and sentences."""

    numbers: Mapping[str, Any]
    """The numbers by name, in JSON's own types: all that the figure shows, and all that the sentences claim."""
    figure: Any
    says: tuple[str, ...]
    """What the numbers mean, a plain sentence each, for the one who reads the terminal."""

    def _facts(self) -> dict[str, Any]:
        return {"says": self.says[0] if self.says else "", "numbers": list(self.numbers)}

    def _repr_html_(self) -> str:
        single = [(name, value) for name, value in self.numbers.items() if isinstance(value, int | float | str)]
        return notebook("Finding", image(drawn(self.figure)), sentences(self.says), table([], single))

    def save(self, folder: Path | str, name: str, *, overwrite: bool = False) -> list[Path]:
        """Write ``NAME.png`` and ``NAME.json`` into the folder, each whole or not at all."""
        picture, table = (writable(Path(folder) / f"{name}{kind}", overwrite, kind) for kind in (".png", ".json"))
        save_figure(self.figure, with_folder(picture))
        write_json(table, self.numbers)
        return [picture, table]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the path's ending names, whole or not at all."""
    write_whole(path, drawn(figure, path.suffix.removeprefix(".").lower()))


def drawn(figure: Figure, kind: str = "png") -> bytes:
    """The figure as the content of a file of this kind."""
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    return content.getvalue()
