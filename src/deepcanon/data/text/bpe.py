"""Byte-pair encoding (BPE): a subword tokenizer that merges frequent pairs of tokens into one."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from deepcanon.core import DataError, UsageError
from deepcanon.core.files import write_whole
from deepcanon.core.stored import held_to, parse_json, read_file, read_text

Pair = tuple[str, str]


class BPE:
    r"""A byte-level BPE tokenizer, as that of GPT-2: its tokens are frequent sequences of bytes.

    Text is cut into words with the space before them, a word into its bytes, and adjacent tokens are merged in the
    order in which training has found the merges. Bytes are written as in GPT-2's files, each as one visible character,
    so that ``vocab.json`` and ``merges.txt`` of GPT-2 can be read, and ours by others.

    References:
        | Neural Machine Translation of Rare Words with Subword Units (Sennrich et al., 2016),
          https://arxiv.org/abs/1508.07909
        | Language Models are Unsupervised Multitask Learners (Radford et al., 2019),
          https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf

    Arguments:
        tokens: The tokens in the order of their numbers.
        merges: The pairs of tokens that are merged, in the order in which training has found them.

    >>> bpe = BPE.train("low lower lowest low low", size=259)
    >>> [bpe.decode([code]) for code in bpe.encode("low slow")]
    ['low', ' ', 's', 'low']
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[Pair]) -> None:
        self.tokens, self.merges = tuple(tokens), tuple(merges)
        self._codes = {token: code for code, token in enumerate(self.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        missing = [part for pair in self.merges for part in (*pair, "".join(pair)) if part not in self._codes]
        missing += [sign for sign in byte_signs() if sign not in self._codes]
        if missing:
            raise DataError(f"the vocabulary lacks {missing[0]!r}, which the merges make or every text needs")
        if strange := next((token for token in self.tokens if not _byte_of().keys() >= {*token}), None):
            raise DataError(f"the token {strange[:50]!r} has a character that stands for no byte")
        self._known: dict[str, list[int]] = {}
        """The ids of words that were encoded already: a text has few different ones."""

    @classmethod
    def train(cls, text: str, size: int) -> Self:
        """The tokenizer with a vocabulary of this size, the 256 bytes included, that merges the most frequent pairs.

        Of equally frequent pairs the first in alphabetical order is merged. Training ends early when no pair occurs
        twice.
        """
        signs = byte_signs()
        if size < len(signs):
            raise UsageError(f"a byte-pair encoding has at least the {len(signs)} bytes (got {size})")
        counts = Counter(words(text))
        parts = [[signs[byte] for byte in word.encode()] for word in counts]
        often = list(counts.values())
        pairs: Counter[Pair] = Counter()
        where: defaultdict[Pair, set[int]] = defaultdict(set)
        for number, word in enumerate(parts):
            for pair in pairwise(word):
                pairs[pair] += often[number]
                where[pair].add(number)
        merges: list[Pair] = []
        queue = [(-count, pair) for pair, count in pairs.items()]  # with former counts of some pairs, which are skipped
        heapify(queue)
        while len(signs) + len(merges) < size and queue:
            count, best = heappop(queue)
            if pairs.get(best) != -count:
                continue
            if -count < 2:
                break
            merges.append(best)
            changed: set[Pair] = set()
            for number in where.pop(best):
                word = parts[number]
                parts[number] = joined(word, best)
                for pair, change in _changes(word, parts[number]):
                    pairs[pair] += change * often[number]
                    changed.add(pair)
                    if change > 0:
                        where[pair].add(number)
                    elif pairs[pair] == 0:
                        del pairs[pair]
            for pair in changed & pairs.keys():
                heappush(queue, (-pairs[pair], pair))
        # two ways to the same token, as a b c and a bc, make one of it
        return cls(list(dict.fromkeys([*signs, *("".join(pair) for pair in merges)])), merges)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The tokenizer of ``vocab.json`` and ``merges.txt`` in this folder, as GPT-2 and Hugging Face have them."""
        path = folder / "vocab.json"
        codes: dict[str, int] = held_to(dict[str, int], parse_json(read_file(path), path), path)
        if sorted(codes.values()) != list(range(len(codes))):
            raise DataError(f"the tokens of {folder / 'vocab.json'} must be numbered from 0 without a gap")
        lines = read_text(folder / "merges.txt").split("\n")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        merges = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
        if len(merges) != len(pairs):
            raise DataError(f"every line of {folder / 'merges.txt'} must have two tokens with a space between them")
        return cls(sorted(codes, key=codes.__getitem__), merges)

    def save(self, folder: Path) -> None:
        """Write ``vocab.json`` and ``merges.txt``."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "vocab.json", json.dumps(self._codes, ensure_ascii=False))
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in self.merges), ""]
        write_whole(folder / "merges.txt", "\n".join(lines))

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens as readable text; a sequence of bytes that is not valid UTF-8 is shown by its bytes."""
        return tuple(_readable(bytes(_byte_of()[sign] for sign in token)) for token in self.tokens)

    def encode(self, text: str) -> list[int]:
        return [code for word in words(text) for code in self._word(word)]

    def decode(self, codes: Iterable[int]) -> str:
        """The text; bytes that are not valid UTF-8, as a model may generate them, become the replacement character."""
        back = _byte_of()
        return bytes(back[sign] for code in codes for sign in self.tokens[code]).decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bpe", "tokens": list(self.tokens), "merges": [list(pair) for pair in self.merges]}

    def _word(self, word: str) -> list[int]:
        codes = self._known.get(word)
        if codes is None:
            parts = [byte_signs()[byte] for byte in word.encode()]
            while len(parts) > 1:
                best = min(pairwise(parts), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
                if best not in self._ranks:
                    break
                parts = joined(parts, best)
            codes = self._known[word] = [self._codes[part] for part in parts]
        return codes


def joined(parts: Sequence[str], pair: Pair) -> list[str]:
    """The parts with every occurrence of the pair merged, from left to right.

    >>> joined(["a", "a", "a", "b"], ("a", "a"))
    ['aa', 'a', 'b']
    """
    found: list[str] = []
    position = 0
    while position < len(parts):
        both = tuple(parts[position : position + 2]) == pair
        found.append("".join(pair) if both else parts[position])
        position += 1 + both
    return found


@cache
def byte_signs() -> tuple[str, ...]:
    """GPT-2's visible character for each byte: itself where it is printable, letters from U+0100 on for the others.

    >>> byte_signs()[ord("a")], byte_signs()[ord(" ")]
    ('a', 'Ġ')
    """
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    unseen = [byte for byte in range(256) if byte not in seen]
    return tuple(chr(byte) if byte in seen else chr(256 + unseen.index(byte)) for byte in range(256))


def words(text: str) -> list[str]:
    """The text cut as GPT-2 cuts it: letters, numbers or other signs with a space before them, and other spaces.

    >>> words("It's 1984,  see?")
    ['It', "'s", ' 1984', ',', ' ', ' see', '?']
    """
    return _word_pattern().findall(text)


@cache
def _word_pattern() -> re.Pattern[str]:
    kinds = "".join(map(itemgetter(0), map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))))
    letters, numbers = _spans("L", kinds), _spans("N", kinds)
    space = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letters}]+| ?[{numbers}]+| ?[^{space}{letters}{numbers}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )


def _spans(kind: str, kinds: str) -> str:
    """All characters of this kind as the inside of a set of a regular expression, from the kinds of all there are.

    A kind is the first letter of a Unicode category. Python's own \\d and \\w differ from GPT-2's pattern: there
    superscripts are numbers, and marks are not letters.
    """
    return "".join(f"\\U{span.start():08x}-\\U{span.end() - 1:08x}" for span in re.finditer(f"{kind}+", kinds))


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[Pair, int]]:
    """The pairs that a word has gained and lost, with their counts; gains first, so that no count falls to 0."""
    difference = Counter(pairwise(after))
    difference.subtract(Counter(pairwise(before)))
    yield from sorted(difference.items(), key=lambda item: -item[1])


@cache
def _byte_of() -> dict[str, int]:
    return {sign: byte for byte, sign in enumerate(byte_signs())}


def _readable(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:x}" for byte in raw)
