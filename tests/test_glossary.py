"""The glossary names files, commands and options that exist, and has the words that readers search for."""

import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from deepcanon.cli.app import app

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "deepcanon"
TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
NAMES = re.findall(r"`([^`]+)`", TEXT)
FILES = {name for name in NAMES if re.fullmatch(r"[\w/]+(?:\.py|/)", name)} - {"src/deepcanon/"}
COMMANDS = {name for name in NAMES if name.startswith("deepcanon ")}

OWN = [
    "Turn",
    "Law",
    "Recipe",
    "Insight",
    "Study",
    "Microscope",
    "Leaf and engine",
    "Likelihood kind",
    "Candidate and baseline",
    "Run",
    "Blueprint",
    "Batch type",
]
SEARCHED = (
    "token|ELBO|reparameterization|negative log-likelihood|partition function|Gibbs step|timestep|skip connection"
    "|fine-tuning|data augmentation|gradient accumulation|mixed precision|message passing|teacher forcing|softmax"
    "|logits|receptive field|embedding|prior|posterior|mini-batch|exponential moving average|early stopping"
)


def test_every_file_that_is_named_exists() -> None:
    assert len(FILES) > 60
    assert [name for name in sorted(FILES) if not (PACKAGE / name).exists()] == []


def test_every_command_that_is_named_exists_with_its_options() -> None:
    group: Any = get_command(app)
    assert len(COMMANDS) > 10
    for line in COMMANDS:
        _, name, *options = line.split()
        assert name in group.commands, line
        assert set(options) <= {option for parameter in group.commands[name].params for option in parameter.opts}, line


def test_every_word_of_the_field_stands_in_its_order_with_a_place() -> None:
    rows = re.findall(r"^\| (?!word|-)(.+?) \| (.+?) \|$", TEXT, flags=re.MULTILINE)
    words = [word for word, _ in rows]
    assert words == sorted(words, key=str.casefold)
    assert [word for word, where in rows if not (FILES | COMMANDS) & set(re.findall(r"`([^`]+)`", where))] == []
    assert [word for word in SEARCHED.split("|") if word not in "\n".join(words)] == []


def test_every_word_of_our_own_is_explained_in_a_few_sentences() -> None:
    assert re.findall(r"^\*\*(.+?)\.\*\*", TEXT, flags=re.MULTILINE) == OWN
    for word in OWN:
        (paragraph,) = re.findall(rf"^\*\*{word}\.\*\* (.*?)\n\n", TEXT, flags=re.MULTILINE | re.DOTALL)
        assert 2 <= len(re.findall(r"\.(?:\s|$)", paragraph)) <= 4, word
