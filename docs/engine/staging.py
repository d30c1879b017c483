"""The tree that Sphinx reads: the pages of docs, the files of the project, and the pages that are made, side by side.

Files are written only where their content has changed, so that Sphinx reads again what has changed and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from docs.engine import cells, notebooks

ROOT = Path(__file__).parents[2]
SITE = "https://github.com/deepcanon/deepcanon/blob/main"
PROJECT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`|(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
"""Code in a line of text, or the target of a link, of which the group is the file."""
NAMED = re.compile(r"\{(model|insight|study|law|data)\}`([\w:.-]+)`")


class StagingError(Exception):
    """A page that names what is not there."""


RUN = ("book/", "guides/", "notebooks/")
"""Where the pages are whose cells are run when the site is built."""


def sources() -> dict[str, Path]:
    """The hand-written pages by their address on the site: files of Markdown, and notebooks."""
    docs = ROOT / "docs"
    written = [
        path for path in sorted(docs.rglob("*")) if path.suffix in (".md", ".ipynb") and ".cache" not in path.parts
    ]
    own = {path.relative_to(docs).with_suffix("").as_posix(): path for path in written}
    return own | {f"project/{Path(name).stem.lower()}": ROOT / name for name in PROJECT}


def read(path: Path) -> str:
    """The text of a page in Markdown, into which a notebook is turned."""
    text = path.read_text(encoding="utf-8")
    return notebooks.markdown(text, path.name) if path.suffix == ".ipynb" else text


def texts() -> dict[str, str]:
    """The hand-written pages in Markdown, by their address on the site."""
    return {address: read(path) for address, path in sources().items()}


def mentions(texts: Mapping[str, str]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """For each model, law and so on the chapters and guides that name it, as address and title."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for address, text in texts.items():
        if address.startswith(RUN):
            for kind, name in dict.fromkeys(NAMED.findall(text)):
                found.setdefault((kind, name), []).append((address, title_of(text)))
    return found


def title_of(text: str) -> str:
    """The title of a page of Markdown."""
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    return found[1] if found else ""


def linked(text: str, address: str, known: Mapping[tuple[str, str], str]) -> str:
    """A page whose links lead to pages of the site, or else to the files of the project on the web.

    ``{model}`` and its like name a page that is made from the file tree; a link that ends in ``.rst`` leads to a list.
    """
    path = sources()[address]
    by_file = {file.resolve(): page for page, file in sources().items()}

    def target(found: re.Match[str]) -> str:
        file = (path.parent / found[1]).resolve()
        anchor = found[2] or ""
        if file in by_file:
            return os.path.relpath(f"{by_file[file]}.md", Path(address).parent) + anchor
        if file.suffix == ".rst":  # which Sphinx checks
            return found[0]
        if not file.exists():
            raise StagingError(f"{path.relative_to(ROOT)} links to {found[1]}, which is not there")
        if file.suffix in (".png", ".svg") and file.is_relative_to(ROOT / "docs"):
            return os.path.relpath(file.relative_to(ROOT / "docs"), Path(address).parent)
        return f"{SITE}/{file.relative_to(ROOT).as_posix()}"

    def page(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        if (kind, name) not in known:
            raise StagingError(f"{path.relative_to(ROOT)} names the {kind} {name!r}, which is not there")
        return f"[{name}](/{known[kind, name]}.rst)"

    def prose(part: str) -> str:
        return CODE.sub(lambda found: target(found) if found[1] else found[0], NAMED.sub(page, part))

    fences = [*FENCE.finditer(text)]
    ends = [0, *(fence.end() for fence in fences)]
    begins = [*(fence.start() for fence in fences), len(text)]
    between = [prose(text[begin:end]) for begin, end in zip(ends, begins, strict=True)]
    return "".join(part for pair in zip(between, [*(fence[0] for fence in fences), ""], strict=True) for part in pair)


class Stage:
    """The folder that Sphinx reads, in which only what is written again stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: set[Path] = set()

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, unless it is there with this content."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
        self.written.add(path)

    def copy(self, name: str, file: Path) -> None:
        """Copy a file, unless it is there with the same size and time."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (
            not path.is_file()
            or path.stat().st_size != file.stat().st_size
            or path.stat().st_mtime < file.stat().st_mtime
        ):
            shutil.copyfile(file, path)
        self.written.add(path)

    def hand_written(self, ran: Mapping[str, cells.Ran], known: Mapping[tuple[str, str], str]) -> None:
        """The pages of docs and of the project, cells with their outputs."""
        for address, path in sources().items():
            text = linked(read(path), address, known)
            if path.suffix == ".ipynb":
                self.copy(f"{address}.ipynb", path)  # which the page offers
            if address in ran:
                outputs = self.folder / "outputs"
                text = cells.woven(text, ran[address], outputs, "/outputs")
            self.write(f"{address}.md", text)
        self.written.update((self.folder / "outputs").glob("*.png"))
        for picture in sorted((ROOT / "docs" / "pictures").rglob("*.*")):
            self.copy(picture.relative_to(ROOT / "docs").as_posix(), picture)

    def clear(self) -> None:
        """Take away what an earlier build has left and this one has not written."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.written:
                path.unlink()
