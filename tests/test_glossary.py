"""The glossary names files, commands and options that exist; the field's words are found where a reader searches."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
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
    "Profile",
    "Leaf and engine",
    "Likelihood kind",
    "Context",
    "Candidate and baseline",
    "Run",
    "Blueprint",
    "Batch type",
]
SEARCHED = (
    "token|ELBO|reparameterization|negative log-likelihood|partition function|Gibbs step|timestep|skip connection"
    "|fine-tuning|data augmentation|gradient accumulation|mixed precision|message passing|teacher forcing|softmax"
    "|logits|receptive field|embedding|prior|posterior|mini-batch|exponential moving average|early stopping"
    "|normalizing flow"
)
IMPLEMENTED = {
    "token": ("data/text/tokenizers.py", "decoding/generation.py", "models/attention/gpt.py"),
    "ELBO": ("models/variational/_variational.py", "models/variational/vae.py", "models/diffusion/_diffusion.py"),
    "reparameterization": ("models/variational/_variational.py", "models/variational/vae.py"),
    "negative log-likelihood": ("models/_predictor.py", "decoding/next_token.py", "models/energy/_energy.py"),
    "partition function": ("models/energy/_energy.py", "models/energy/rbm.py"),
    "Gibbs": ("models/energy/rbm.py",),
    "timestep": ("models/diffusion/_diffusion.py", "models/diffusion/ddpm.py"),
    "skip connection": ("nn/connections.py", "models/convolutional/resnet.py", "models/attention/_transformer.py"),
    "fine-tun": ("methods/lora.py", "methods/transfer.py"),
    "data augmentation": ("augment/motions.py", "augment/perturbations.py", "methods/augmentation.py"),
    "gradient accumulation": ("train/steps.py",),
    "mixed precision": ("train/steps.py", "core/precision.py"),
    "message passing": ("nn/graph_conv.py", "nn/graph_attention.py", "models/graphs/gcn.py"),
    "teacher forcing": ("decoding/next_token.py", "models/_language_model.py", "models/attention/gpt.py"),
    "normalizing flow": ("models/flows/_flow.py", "models/flows/nice.py", "models/flows/realnvp.py"),
    "softmax": ("models/linear/softmax_regression.py", "nn/activations.py", "nn/attention.py"),
    "early stopping": ("train/observers.py",),
}
"""Words that a reader searches for, and the files that implement what they name."""


def docstrings(path: Path) -> str:
    """All docstrings of a file in small letters, each space as one."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    nodes = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds))
    return " ".join(" ".join(ast.get_docstring(node) or "" for node in nodes).lower().split())


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
    single = [each for word in words for each in re.split(r", (?![^(]*\))", word)]
    assert [each for each in single if single.count(each) > 1] == []
    assert [word for word, where in rows if not (FILES | COMMANDS) & set(re.findall(r"`([^`]+)`", where))] == []
    assert [word for word in SEARCHED.split("|") if word not in "\n".join(words)] == []


def test_every_word_of_our_own_is_explained_in_a_few_sentences() -> None:
    assert re.findall(r"^\*\*(.+?)\.\*\*", TEXT, flags=re.MULTILINE) == OWN
    for word in OWN:
        (paragraph,) = re.findall(rf"^\*\*{word}\.\*\* (.*?)\n\n", TEXT, flags=re.MULTILINE | re.DOTALL)
        assert 2 <= len(re.findall(r"\.(?:\s|$)", paragraph)) <= 4, word


@pytest.mark.parametrize("word", IMPLEMENTED)
def test_a_word_of_the_field_is_found_in_the_docs_and_in_the_docstrings_of_what_it_names(word: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(word.lower() in " ".join(page.read_text(encoding="utf-8").lower().split()) for page in pages)
    assert [name for name in IMPLEMENTED[word] if word.lower() not in docstrings(PACKAGE / name)] == []
