"""Text generated from the command line, token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Generator, Tensor, nn

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import Model, Sequences, Terms

Call = Callable[..., Any]


class Alphabet(Model[Sequences]):
    """A language model that always continues with the next token of the alphabet."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.vocab = vocab
        self.weight = nn.Parameter(torch.zeros(()))

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        return cls(3), Sequences(torch.zeros(2, 4, dtype=torch.long), torch.full((2,), 4))

    def loss(self, batch: Sequences) -> Terms:
        return {"loss": (self.weight - 1).square()}

    def generate(
        self,
        prompt: Tensor,
        steps: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        more = prompt[:, -1:] + torch.arange(1, steps + 1)
        return torch.cat([prompt, more % self.vocab], dim=1)


@pytest.fixture
def findable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    point = EntryPoint("alphabet", f"{__name__}:Alphabet", catalogue.GROUP)
    monkeypatch.setattr(catalogue, "_points", lambda: (point,))
    catalogue.entries.cache_clear()
    yield
    catalogue.entries.cache_clear()


def test_text_is_generated_token_by_token(call: Call, tmp_path: Path, findable: None) -> None:
    run = tmp_path / "run"
    assert call("train", "alphabet", "--steps", "1", "--out", run).code == 0
    assert call("generate", run, "--prompt", "xa", "--steps", "4", "--json").json["text"] == "xabcde"
    assert call("generate", run, "--prompt", "xa", "--steps", "4").stdout == "xabcde\n"
    unknown = call("generate", run, "--prompt", "é")
    assert unknown.code == 2
    assert "'é' is not in the vocabulary" in unknown.stderr
    assert call("generate", run, "--prompt", "").code == 2


def test_the_most_probable_texts_are_searched_for_and_no_sampling_is_mixed_in(call: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("train", "lstm", "--units", "8", "--embedding", "4", "--steps", "2", "--out", run).code == 0
    found = call("generate", run, "--prompt", "Re", "--steps", "3", "--beams", "5", "--top", "2", "--json").json
    wanted = dc.Run(run).most_probable("Re", 3, top=2, beams=5)
    assert [(row["text"], row["log_prob"]) for row in found["texts"]] == wanted
    assert wanted[0][1] >= wanted[1][1]
    greedy = dc.Run(run).generate("Re", 3, temperature=0)
    assert call("generate", run, "--prompt", "Re", "--steps", "3", "--beams", "1").stdout == f"{greedy}\n"
    (exact,) = dc.Run(run).most_probable("Re", 1, top=1, exact=True)
    assert exact == dc.Run(run).most_probable("Re", 1, top=1)[0]  # of one token, greedy is exact
    assert call("generate", run, "--prompt", "Re", "--steps", "1", "--exact", "--top", "1").stdout.count("nats:") == 1

    for options in (
        ("--beams", "2", "--temperature", "0.5"),
        ("--exact", "--top-k", "3"),
        ("--beams", "2", "--seed", "1"),
    ):
        assert "a search draws nothing" in call("generate", run, *options).stderr
    assert "give --beams or --exact, too" in call("generate", run, "--top", "3").stderr
