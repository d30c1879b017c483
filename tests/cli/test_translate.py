"""Texts translated from the command line, by a model that was trained on pairs of texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.core import UsageError

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dates") / "run"
    dc.Run.train("seq2seq_attention:units=8,embedding=4", "dates", out=folder, quiet=True, steps=2)
    return folder


@pytest.mark.slow
def test_each_text_is_translated(call: Call, trained: Path) -> None:
    texts = ["3 october 2021", "may 1, 1999"]
    found = call("translate", trained, *texts, "--beams", "2", "--json").json
    assert found["texts"] == texts
    assert found["translations"] == dc.Run(trained).translate(*texts, beams=2)
    assert all(set(text) <= set("0123456789-") for text in found["translations"])
    assert call("translate", trained, texts[0]).stdout.count("\n") == 1


def test_what_cannot_be_translated_is_said(call: Call, trained: Path) -> None:
    unknown = call("translate", trained, "3 oktöber 2021")
    assert unknown.code == 2
    assert "'ö' is not in the vocabulary" in unknown.stderr
    assert "needs at least one token" in call("translate", trained, "").stderr
    assert "beams" in call("translate", trained, "may 1, 1999", "--beams", "0").stderr
    assert "use translate" in call("generate", trained, "--prompt", "1").stderr
    with pytest.raises(UsageError, match=r"a text to translate is a string; got list: give several one by one"):
        dc.Run(trained).translate(["may 1, 1999"])  # type: ignore[arg-type]


def test_a_model_that_does_not_translate_says_so(tmp_path: Path) -> None:
    dc.Run.train("softmax_regression", "digits", out=tmp_path / "run", quiet=True, steps=1)
    with pytest.raises(UsageError, match="softmax_regression cannot translate; it can predict"):
        dc.Run(tmp_path / "run").translate("may 1, 1999")


def test_pairs_of_numbers_are_no_texts(tmp_path: Path) -> None:
    data = dc.from_tensors([[1, 2], [2, 1]], [[0, 2, 1], [0, 3, 1]], y_lengths=[3, 3])  # type: ignore[arg-type]
    model = dc.find("seq2seq_attention")(**data.sizes, units=4)
    dc.fit(model, data, out=tmp_path / "run", steps=1, quiet=True)
    with pytest.raises(UsageError, match="not pairs of texts"):
        dc.Run(tmp_path / "run").translate("may 1, 1999")


@pytest.mark.slow
def test_the_most_probable_translations_come_with_their_probabilities(call: Call, trained: Path) -> None:
    text = "3 october 2021"
    found = call("translate", trained, text, "--beams", "4", "--top", "3", "--length-penalty", "0.5", "--json").json
    (rows,) = found["most_probable"]
    wanted = dc.Run(trained).most_probable(given=text, top=3, beams=4, length_penalty=0.5)
    assert [(row["text"], row["log_prob"]) for row in rows] == wanted
    assert len(wanted) == 3
    best = call("translate", trained, text, "--beams", "4", "--length-penalty", "0.5", "--json").json
    assert best["translations"] == dc.Run(trained).translate(text, beams=4, length_penalty=0.5)
    assert "log-probability" in call("translate", trained, text, "--beams", "2", "--top", "2").stdout
    as_many = call("translate", trained, text, "--top", "3", "--json").json["most_probable"]
    assert [row["text"] for row in as_many[0]] == [text for text, _ in dc.Run(trained).most_probable(given=text, top=3)]


def test_searches_that_mean_nothing_are_refused(call: Call, trained: Path) -> None:
    text = "may 1, 1999"
    assert "take as many beams, or an exact search" in call(
        "translate", trained, text, "--beams", "1", "--top", "2"
    ).stderr  # fmt: skip
    assert "leave out one of exact and beams" in call("translate", trained, text, "--beams", "2", "--exact").stderr
    assert "leave out length_penalty" in call("translate", trained, text, "--length-penalty", "1").stderr
    assert "an exact search has no beams" in call(
        "generate", trained, "--given", text, "--beams", "2", "--exact", "--top", "2"
    ).stderr  # fmt: skip
