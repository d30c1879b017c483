"""The command line tells the neighbors that the trained model finds."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.nn import recall

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = dc.load_data("text:words=20")
    model = dc.find("word2vec")(vocab=data.sizes["vocab"], latent=8)
    folder = tmp_path_factory.mktemp("words") / "run"
    dc.fit(model, data, out=folder, quiet=True, steps=30)
    return folder


def test_a_loaded_model_knows_its_words(call: Call, run: Path) -> None:
    model: Any = dc.load(run)
    assert model.vocabulary == dc.load_data("text:words=20").vocabulary
    near = model.nearest("return", 4)
    told = call("nearest", run, "return", "file", "-n", "4", "--json").json["nearest"]
    assert told["return"] == dict(near)
    assert len(told["file"]) == 4
    for word, _ in near:
        assert word in call("nearest", run, "return", "-n", "4").stdout


def test_an_unknown_word_is_answered_by_similar_ones(call: Call, run: Path) -> None:
    answer = call("nearest", run, "retrun")
    assert answer.code == 2
    advice = "did you mean return or returns or returned?"
    assert answer.stderr == f"deepcanon: 'retrun' is not in the vocabulary; {advice}\n"


@pytest.mark.parametrize("other", ["text", "text:words=30", "text:bytes"])
def test_a_text_in_other_tokens_is_not_measured(call: Call, run: Path, other: str) -> None:
    answer = call("evaluate", run, "--data", other)
    count = len(dc.load_data("text:words=20").vocabulary)
    sentence = f"the model has learned from text in {count} tokens; {other} has others"
    assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")


def test_a_model_without_words_has_no_neighbors(call: Call, tmp_path: Path) -> None:
    assert call("train", "softmax_regression", "--data", "digits", "--steps", "1", "--out", tmp_path / "run").code == 0
    answer = call("nearest", tmp_path / "run", "true")
    assert answer.code == 2
    assert "softmax_regression has no word vectors" in answer.stderr
    answer = call("nearest", tmp_path / "run")
    assert (answer.code, "has no codes of examples" in answer.stderr) == (2, True)


def test_an_analogy_is_asked_of_three_words(call: Call, run: Path) -> None:
    model: Any = dc.load(run)
    told = call("nearest", run, "return", "returns", "get", "--analogy", "-n", "3", "--json").json["nearest"]
    assert told == {"return returns get": dict(model.analogy("return", "returns", "get", 3))}
    assert "returns is to return as to get" in call("nearest", run, "return", "returns", "get", "--analogy").stdout
    answer = call("nearest", run, "return", "--analogy")
    assert (answer.code, "three words" in answer.stderr) == (2, True)
    answer = call("nearest", run, "return", "--data", "digits")
    assert (answer.code, "give either words or --data" in answer.stderr) == (2, True)
    answer = call("nearest", run, "return", "--approximate")
    assert (answer.code, "words are searched exactly" in answer.stderr) == (2, True)


def test_examples_have_neighbors_by_their_codes(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert call("train", "ppca", "--data", "digits:dequantized", "--latent", "8", "--out", folder).code == 0
    told = call("nearest", folder, "-n", "3", "--json").json["nearest"]
    model: Any = dc.load(folder)
    data = dc.load_data("digits:dequantized")
    test, train = (model.encode(part.x).mean for part in (data.split("test"), data.train))
    distances, numbers = torch.cdist(test.double(), train.double()).topk(3, largest=False)
    assert [row["examples"] for row in told] == numbers.tolist()
    torch.testing.assert_close(torch.tensor([row["distances"] for row in told]), distances.float(), atol=1e-3, rtol=0)
    assert told[0]["classes"] == [data.labels[int(data.train.y[i])] for i in numbers[0]]
    assert "nearest to 9" in call("nearest", folder, "-n", "3").stdout
    if find_spec("faiss"):
        about = call("nearest", folder, "-n", "3", "--approximate", "--json").json["nearest"]
        assert recall(torch.tensor([row["examples"] for row in about]), numbers) > 0.95
    answer = call("nearest", folder, "-n", "5000")
    assert (answer.code, "can be the nearest ones (got n=5000)" in answer.stderr) == (2, True)


@pytest.mark.slow
def test_words_are_what_word2vec_is_trained_on_unless_told(call: Call, tmp_path: Path) -> None:
    answer = call("train", "word2vec", "--latent", "4", "--steps", "1", "--out", tmp_path / "run", "--json")
    assert answer.json["data"] == "text:words"
