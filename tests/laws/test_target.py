"""What ``deepcanon check FILE.py:Name`` is pointed at: every way to name it, every way to be wrong."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from deepcanon import laws
from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.laws.target import invented_batch, load_target, target_of

FILE = """
from dataclasses import dataclass

import torch
from torch import nn

from deepcanon.core import Labeled
from deepcanon.core.toy import Toy


class Plain(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(7, 3))


class WithExample(nn.Linear):
    @classmethod
    def example(cls):
        return cls(2, 4), (torch.zeros(6, 2), torch.arange(6) % 4)


class NeedsArguments(nn.Linear):
    pass


@dataclass
class Settings:
    width: int = 3


def made():
    return nn.Linear(Settings().width, 2), Labeled(torch.zeros(4, 3), torch.arange(4) % 2)


def lonely():
    return nn.Linear(3, 2)


def odd():
    return "text"


def odd_batch():
    return nn.Linear(3, 2), "text"


NUMBER = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_deepcanon_model_brings_its_example(file: Path) -> None:
    module, batch = load_target(f"{file}:Toy")
    assert isinstance(module, Toy)
    assert isinstance(batch, Batch)


def test_a_plain_class_is_built_without_arguments(file: Path) -> None:
    module, batch = load_target(f"{file}:Plain")
    assert isinstance(module, nn.Sequential)
    assert batch is None


def test_examples_may_be_tensors(file: Path) -> None:
    module, batch = load_target(f"{file}:WithExample")
    assert isinstance(module, nn.Linear)
    assert isinstance(batch, Labeled)
    assert batch.y.tolist() == [0, 1, 2, 3, 0, 1]
    _, alone = target_of((nn.Linear(2, 2), torch.zeros(3, 2)))
    assert type(alone) is Batch


def test_a_function_gives_a_module_with_or_without_examples(file: Path) -> None:
    module, batch = load_target(f"{file}:made")
    assert isinstance(module, nn.Linear)
    assert isinstance(batch, Labeled)
    assert load_target(f"{file}:lonely")[1] is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Absent", "has no Absent; it has Plain, WithExample, NeedsArguments, Settings, made, lonely, odd, odd_batch$"),
        ("NeedsArguments", r"NeedsArguments\(\) failed with TypeError.*give the class an example\(\)"),
        ("odd", "odd gave a str where a torch.nn.Module is needed"),
        ("odd_batch", "odd_batch gave a str where examples are needed"),
        ("NUMBER", "NUMBER is a int"),
    ],
)
def test_what_cannot_be_checked_is_said_in_a_sentence(file: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_target(f"{file}:{name}")


def test_a_missing_file_a_broken_file_and_a_missing_name_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_target(f"{tmp_path}/absent.py:Model")
    broken = tmp_path / "broken.py"
    broken.write_text("import does_not_exist_anywhere")
    with pytest.raises(UsageError, match=r"cannot be imported: ModuleNotFoundError"):
        load_target(f"{broken}:Model")
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    with pytest.raises(UsageError, match="not a Python file"):
        load_target(f"{text}:Model")
    for bad in ("mine.py", "mine.py:", "mine.py:not a name"):
        with pytest.raises(UsageError, match=r"write FILE\.py:Name"):
            load_target(bad)


def test_a_file_hides_no_module_and_may_import_what_lies_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "beside_a_checked_file.py").write_text("WIDTH = 5")
    path = tmp_path / "json.py"
    path.write_text(
        "from torch import nn\nfrom beside_a_checked_file import WIDTH\n\ndef net():\n    return nn.Linear(WIDTH, 2)\n"
    )
    searched = list(sys.path)
    module, _ = load_target(f"{path}:net")
    assert isinstance(module, nn.Linear)
    assert module.in_features == 5
    assert sys.modules["json"] is json
    assert sys.path == searched


def test_examples_are_invented_from_the_first_layer() -> None:
    for module, shape in (
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), (7,)),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 30 * 30, 3)), (3, 32, 32)),
        (nn.Sequential(nn.Conv1d(2, 2, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2, 3)), (2, 28)),
    ):
        batch = invented_batch(module)
        assert batch.x.shape[1:] == shape
        assert sorted(set(batch.y.tolist())) == [0, 1, 2]


def test_examples_that_cannot_be_invented_are_asked_for() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    for module in (Nothing(), nn.Sequential(nn.Embedding(5, 2), nn.Linear(3, 2))):
        with pytest.raises(UsageError, match=r"give the class an example\(\)"):
            invented_batch(module)


def test_a_forward_that_fails_is_reported_with_its_own_error() -> None:
    class Broken(nn.Module):
        def __init__(self, *layers: nn.Module) -> None:
            super().__init__()
            self.layers = nn.Sequential(*layers)

        def forward(self, x: Tensor) -> Tensor:
            answers: dict[str, Tensor] = {"logits": self.layers(x)}
            return answers["logit"]

    images = (nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 14, 3))
    for broken, shape in ((Broken(nn.Linear(7, 3)), r"\(32, 7\)"), (Broken(*images), r"\(32, 1, 16, 16\)")):
        with pytest.raises(UsageError, match=rf"Broken raised KeyError: 'logit' \(given {shape}\); .* an example\(\)"):
            invented_batch(broken)
    with pytest.raises(UsageError, match=r"Sequential raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"):
        invented_batch(nn.Sequential(nn.Linear(7, 3), nn.Linear(4, 2)))
    with pytest.raises(UsageError, match=r"gave \(32, 7, 1\) where logits"):
        invented_batch(nn.Sequential(nn.Linear(7, 7), nn.Unflatten(1, (7, 1))))


def test_check_runs_the_laws_of_a_kind(file: Path) -> None:
    found = laws.check(load_target(f"{file}:Plain"), "classifier")
    assert found
    assert all(outcome.holds for outcome in found)
    assert all(outcome.holds for outcome in laws.check(Toy, "contract"))
    with pytest.raises(UsageError, match="there is no kind 'oracle'; there are contract, classifier, latent"):
        laws.check(Toy, "oracle")
    with pytest.raises(UsageError, match=r"brings no examples.*help\('deepcanon\.laws\.latent'\)"):
        laws.check(load_target(f"{file}:Plain"), "latent")
    with pytest.raises(UsageError, match="the contract is that of a deepcanon Model"):
        laws.check(load_target(f"{file}:made"), "contract")


def test_an_instance_brings_the_examples_of_its_class_where_they_fit() -> None:
    from deepcanon.laws import check
    from deepcanon.models.feedforward.mlp import MLP

    model, _ = MLP.example()
    assert all(outcome.holds for outcome in check(model, "classifier"))
    with pytest.raises(UsageError, match=r"MLP brings no examples; give the pair \(module, batch\)"):
        check(MLP(features=999, classes=2), "contract")
