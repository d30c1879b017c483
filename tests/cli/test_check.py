"""Anyone's module is held to the laws; the exit code says whether it keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon.laws import KINDS
from deepcanon.laws.apart import outcomes

Call = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\n"
        "class Right(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(4, 3)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
        "class Squashed(Right):\n"
        "    def forward(self, x):\n"
        "        return self.layer(x).softmax(-1)\n"  # probabilities, where the loss expects logits
    )
    return path


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks in this process, which has torch loaded already."""
    monkeypatch.setattr("deepcanon.core.apart.call_apart", lambda _, *arguments, **limits: outcomes(*arguments))


@pytest.mark.slow
@pytest.mark.parametrize(("line", "sentence"), [("import os; os._exit(0)", "ended the process with the exit code 0")])
def test_a_file_that_ends_the_process_is_not_passed(call: Call, tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "mine.py").write_text(line)
    answer = call("check", f"{tmp_path / 'mine.py'}:Net")
    assert answer.code == 1
    assert sentence in answer.stderr


@pytest.mark.usefixtures("_at_once")
def test_a_file_that_exits_when_it_is_imported_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; sys.exit(0)")
    answer = call("check", f"{tmp_path / 'mine.py'}:Net")
    assert answer.code == 2
    assert "calls sys.exit(0) when it is imported" in answer.stderr


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    path = tmp_path / "parts.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Attention(nn.Module):\n"
        "    def forward(self, q, k, v, mask):\n"
        "        return (q @ k.mT).masked_fill(~mask, -torch.inf).softmax(-1) @ v\n"
        "class WideAttention(nn.Module):\n"
        "    def forward(self, q, k, v, mask):\n"
        "        return (q @ k.mT / v.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ v\n"
        "class Norm(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return (x - x.mean(0)) / x.std(0, correction=0).sqrt()\n"
        "class Drop(nn.Module):\n"
        "    p = 0.3\n"
        "    def forward(self, x):\n"
        "        return x * (torch.rand_like(x) > self.p) / self.p if self.training else x\n"
        "class He(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))\n"
        "        nn.init.normal_(self[0].weight, std=(4 / 64) ** 0.5)\n"
        "class Steps(torch.optim.Optimizer):\n"
        "    def __init__(self, parameters, lr=0.1):\n"
        "        super().__init__(parameters, {'lr': lr})\n"
        "    def step(self, closure=None):\n"
        "        closure()\n"
        "        for point in self.param_groups[0]['params']:\n"
        "            point.data -= point.grad\n"
    )
    return path


@pytest.mark.usefixtures("_at_once")
def test_a_module_that_keeps_the_laws(call: Call, file: Path) -> None:
    answer = call("check", f"{file}:Right", "--as", "classifier", "--json")
    assert answer.code == 0
    assert answer.json["failed"] == 0
    assert len(answer.json["outcomes"]) > 5


@pytest.mark.slow
@pytest.mark.usefixtures("_at_once")
def test_a_module_that_breaks_one_is_told_which_and_by_how_much(call: Call, file: Path) -> None:
    answer = call("check", f"{file}:Squashed", "--as", "classifier", "--json")
    assert answer.code == 1
    first = answer.json["outcomes"][0]
    assert not first["holds"], "what fails stands first"
    assert first["measured"] > first["bound"]
    people = call("check", f"{file}:Squashed", "--as", "classifier")
    assert people.code == 1
    assert "FAILS" in people.stdout
    assert first["law"] in people.stdout
    assert first["detail"] in people.stdout


def test_help_lists_the_kinds(call: Call) -> None:
    shown = call("check", "--help")
    assert shown.code == 0
    words = set(shown.stdout.replace(",", " ").replace(".", " ").split())
    assert set(KINDS) <= words


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(
    ("name", "kind", "law"),
    [
        ("Attention", "attention", "scores are divided by the root of the key width"),
        ("WideAttention", "attention", "scores are divided by the root of the key width"),
        ("Norm", "normalization", "variance becomes one"),
        ("Drop", "dropout", "training keeps the mean of evaluation"),
        ("He", "initialization", "weights do not amplify"),
        ("Steps", "optimizer", "the first step is proportional to the rate"),
    ],
)
def test_parts_with_known_slips_are_caught_without_naming_their_kind(
    call: Call, parts: Path, name: str, kind: str, law: str
) -> None:
    answer = call("check", f"{parts}:{name}", "--json")
    assert answer.code == 1
    assert kind in answer.json["kind"]
    assert law in [outcome["law"] for outcome in answer.json["outcomes"] if not outcome["holds"]]


@pytest.mark.usefixtures("_at_once")
def test_wrong_usage(call: Call, file: Path) -> None:
    for words, sentence in (
        (("check", f"{file}:Wrong"), "has no Wrong"),
        (("check", "nowhere.py:Net"), "there is no file nowhere.py"),
        (("check", f"{file}:Right", "--as", "clasifier"), "there is no kind 'clasifier'"),
        (("check", str(file)), "FILE.py:Name"),
    ):
        answer = call(*words)
        assert answer.code == 2
        assert sentence in answer.stderr
        assert answer.stderr.count("\n") == 1
