"""Pairs of sentences out of compressed files, from a server on this machine and from the real files where they are."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.sets import multi30k
from deepcanon.data.sets.multi30k import GERMAN_ENGLISH, LONGEST, load
from deepcanon.data.text.tokenizers import tokenizer_of

SENTENCES = {
    "train.de.gz": "Ein Hund rennt.\n Zwei Hunde rennen. \nEin Kind lacht.\n",
    "train.en.gz": "A dog runs.\nTwo dogs run.\nA child laughs.\n",
    "val.de.gz": "Ein Hund lacht.\n",
    "val.en.gz": "A dog laughs.\n",
    "test_2016_flickr.de.gz": "Zwei Kinder rennen.\n",
    "test_2016_flickr.en.gz": "Two children run.\n",
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, text in SENTENCES.items():
        (folder / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", folder
    server.shutdown()
    server.server_close()


def test_pairs_are_downloaded_checked_and_cut_into_subwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: tuple[str, Path]
) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(multi30k, "SUBWORDS", 260)
    address, folder = mirror
    contents = [(name, (folder / name).read_bytes()) for name in SENTENCES]
    files = tuple(RemoteFile(name, len(each), hashlib.sha256(each).hexdigest()) for name, each in contents)
    entry = replace(GERMAN_ENGLISH, remote=Remote("multi30k", (address,), files))
    data = load(entry)
    assert sorted(path.name for path in (tmp_path / "data" / "multi30k").iterdir()) == sorted(SENTENCES)
    source: Any = tokenizer_of((), data.preprocessing)
    target: Any = tokenizer_of((), {"tokenizer": data.preprocessing["target_tokenizer"]})
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        pairs = data.split(split)
        read = [source.decode(row[:end]) for row, end in zip(pairs.x.tolist(), pairs.lengths.tolist(), strict=True)]
        written = [
            target.decode(row[:end]) for row, end in zip(pairs.y.tolist(), pairs.y_lengths.tolist(), strict=True)
        ]
        assert read == [line.strip() for line in SENTENCES[f"{name}.de.gz"].split("\n")[:-1]]
        assert written == SENTENCES[f"{name}.en.gz"].split("\n")[:-1]
    assert data.vocabulary == source.vocabulary
    (tmp_path / "data" / "multi30k" / "val.en.gz").write_bytes(b"other")
    with pytest.raises(DataError, match="is damaged"):
        load(entry)


@pytest.mark.slow
@pytest.mark.skipif(not GERMAN_ENGLISH.remote.here(), reason="multi30k is not on this machine; set DEEPCANON_DATA")
def test_the_real_sentences_have_their_published_numbers() -> None:
    data: Any = load_data("multi30k-de-en")
    assert tuple(len(data.split(part)) for part in ("train", "valid", "test")) == GERMAN_ENGLISH.counts
    assert (data.sizes["vocab"], data.sizes["target_vocab"]) == (len(data.vocabulary), len(data.target_vocabulary))
    assert max(int(data.split(part).lengths.max()) for part in ("train", "valid", "test")) == LONGEST["de"]
    target: Any = tokenizer_of((), {"tokenizer": data.preprocessing["target_tokenizer"]})
    first = data.test.y[0, : data.test.y_lengths[0]].tolist()
    assert target.decode(first) == "A man in an orange hat starring at something."
