"""Multi30k: captions of photos in English, German and French, translated by people; pairs of two of them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

from deepcanon.core import SequencePairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry
from deepcanon.data.text.text_columns import learn_tokenizer
from deepcanon.data.text.text_pairs import sequence_pairs

SUBWORDS = 4000
"""The byte-pair encoding of each language, learned from its training split."""

SOURCE_SPECIAL, TARGET_SPECIAL = ("padding",), ("padding", "begin", "end")
SPLITS = ("train", "val", "test_2016_flickr")
LONGEST = {"de": 59, "en": 52, "fr": 58}
"""The number of tokens of the longest sentence in all splits."""

FILES = (
    RemoteFile("train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    RemoteFile("train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    RemoteFile("train.fr.gz", 604242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    RemoteFile("val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    RemoteFile("val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    RemoteFile("val.fr.gz", 23001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
    RemoteFile("test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    RemoteFile("test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
    RemoteFile("test_2016_flickr.fr.gz", 22310, "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90"),
)
NAMES = {"de": "German", "en": "English", "fr": "French"}


def load(entry: Entry) -> Dataset[SequencePairs]:
    """The published splits of 2016, in subwords; each language has a tokenizer of its own."""
    sides = [[line.strip() for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]]
             for path in entry.remote.fetch()]  # fmt: skip
    pairs = [list(zip(source, target, strict=True)) for source, target in zip(sides[::2], sides[1::2], strict=True)]
    form = f"bpe={SUBWORDS}"
    source = learn_tokenizer(sides[0], entry.name, [form], form, *SOURCE_SPECIAL)
    target = learn_tokenizer(sides[1], entry.name, [form], form, *TARGET_SPECIAL)
    size = (entry.shape[0], max(len(target.row(text)) for text in (*sides[1], *sides[3], *sides[5])))
    return replace(
        entry.dataset(*(sequence_pairs(part, source, target, size) for part in pairs)),
        vocabulary=source.vocabulary,
        target_vocabulary=target.vocabulary,
        preprocessing={"tokenizer": source.to_json(), "target_tokenizer": target.to_json()},
    )


def _facts(source: str, target: str) -> dict[str, Any]:
    """The facts of the pairs of two languages."""
    wanted = [f"{split}.{language}.gz" for split in SPLITS for language in (source, target)]
    return {
        "kind": "pairs",
        "shape": (LONGEST[source],),
        "sizes": {
            "vocab": SUBWORDS + len(SOURCE_SPECIAL),
            "target_vocab": SUBWORDS + len(TARGET_SPECIAL),
            "begin_token": TARGET_SPECIAL.index("begin"),
            "end_token": TARGET_SPECIAL.index("end"),
        },
        "counts": (29000, 1014, 1000),
        "source": (
            f"captions of photos, {NAMES[source]} to {NAMES[target]} (Elliott et al., 2016), "
            "https://github.com/multi30k/dataset"
        ),
        "load": load,
        "remote": Remote(
            folder="multi30k",
            mirrors=(
                "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
                "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw/",
            ),
            files=tuple(next(file for file in FILES if file.name == name) for name in wanted),
        ),
    }


GERMAN_ENGLISH = Entry(
    name="multi30k-de-en",
    **_facts("de", "en"),
)
ENGLISH_GERMAN = Entry(
    name="multi30k-en-de",
    **_facts("en", "de"),
)
FRENCH_ENGLISH = Entry(
    name="multi30k-fr-en",
    **_facts("fr", "en"),
)
ENGLISH_FRENCH = Entry(
    name="multi30k-en-fr",
    **_facts("en", "fr"),
)
