"""A new head learns on a backbone from another task, which stays as it was or goes on; with few labels that pays."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import deepcanon as dc
from deepcanon.blueprints import blueprint
from deepcanon.core import DataError, Labeled, Model, SentencePairs, UsageError, describe
from deepcanon.core.toy import Toy
from deepcanon.methods.lora import LoRA
from deepcanon.methods.noise_injection import NoiseInjection
from deepcanon.methods.transfer import Transfer
from deepcanon.models.attention.bert import BERT
from deepcanon.models.convolutional.resnet import ResNet
from deepcanon.models.feedforward.mlp import MLP


def net(classes: int = 3) -> MLP:
    torch.manual_seed(0)
    return MLP(features=2, classes=classes, hidden=(16,), dropout=0.2)


def fitted(method: Model[Any], **settings: Any) -> Any:
    return dc.fit(method, dc.load_data("moons"), steps=8, batch_size=32, lr=0.01, quiet=True, **settings)


@pytest.mark.parametrize("backbone", ["frozen", "fine-tuned"])
def test_a_new_head_replaces_the_old_one_on_the_chosen_backbone(
    backbone: Literal["frozen", "fine-tuned"],
) -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    method = Transfer(model, classes=2, backbone=backbone)
    assert torch.equal(model.get_parameter("net.0.weight"), before["net.0.weight"])
    head = copy.deepcopy(method.head.state_dict())
    assert head["weight"].shape == (2, 16)
    fitted(method)
    assert not torch.equal(method.head.state_dict()["weight"], head["weight"])
    assert torch.equal(model.get_parameter("net.0.weight"), before["net.0.weight"]) == (backbone == "frozen")
    assert torch.equal(model.get_parameter("net.0.bias"), before["net.0.bias"]) == (backbone == "frozen")
    assert method.predict(torch.zeros(4, 2), how="mean").shape == (4, 2)  # type: ignore[operator]


def test_a_frozen_backbone_learns_what_logistic_regression_on_its_features_learns() -> None:
    """The same steps by hand on the hidden activations, without dropout."""
    model = net()
    method = Transfer(model, classes=2)
    data = dc.load_data("moons")
    hidden = model.net[:2](data.train.x).detach()
    twin = copy.deepcopy(method.head)
    dc.fit(method, data, steps=10, batch_size=len(data.train), optimizer="sgd", lr=0.1, quiet=True)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(twin(hidden), data.train.y).backward()
        optimizer.step()
    for ours, theirs in zip(method.head.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_running_averages_of_a_frozen_backbone_stay() -> None:
    model, batch = ResNet.example()
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    assert buffers
    method = Transfer(model).train()
    method.loss(batch)
    assert all(torch.equal(value, buffers[name]) for name, value in model.named_buffers())
    Transfer(model, backbone="fine-tuned").train().loss(batch)
    assert not all(torch.equal(value, buffers[name]) for name, value in model.named_buffers())


def test_a_run_with_another_number_of_classes_is_loaded_again(tmp_path: Path) -> None:
    method = Transfer(net(classes=5), classes=2)
    fitted(method, out=tmp_path)
    again = dc.load(tmp_path)
    x = torch.randn(6, 2)
    assert torch.equal(again(x), method.eval()(x))
    assert describe(again) == describe(method)
    plain = method.unwrapped()
    assert describe(plain)["arguments"]["classes"] == 2
    assert torch.equal(plain(x), method(x))


def test_with_the_old_head_and_a_backbone_that_learns_it_is_the_plain_run_bit_for_bit() -> None:
    ends = []
    for wrap in (False, True):
        model = net(classes=2)
        fitted(Transfer(model, classes=2, backbone="fine-tuned", head="kept") if wrap else model)
        ends.append(model.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.mark.slow
def test_with_three_labels_per_class_it_beats_learning_from_scratch() -> None:
    """Digits: the backbone learns y modulo 5, then all ten digits are learned from thirty labels; paired seeds."""
    data = dc.load_data("digits")
    train, test = data.split("train"), data.split("test")
    few = torch.cat([(train.y == digit).nonzero().squeeze(1)[:3] for digit in range(10)])
    target = dc.from_tensors(train.x[few], train.y[few])
    gains = []
    for seed in range(10, 13):
        torch.manual_seed(seed)
        source = MLP(features=64, classes=5, hidden=(64,))
        dc.fit(source, dc.from_tensors(train.x, train.y % 5), steps=300, seed=seed, quiet=True, evaluate=False)
        moved = Transfer(source, classes=10)
        scratch = MLP(features=64, classes=10, hidden=(64,))
        scores = []
        for model in (scratch, moved):
            dc.fit(model, target, steps=200, lr=0.01, seed=seed, quiet=True, evaluate=False)
            scores.append(dc.evaluate(model, Labeled(test.x, test.y))["accuracy"])
        gains.append(scores[1] - scores[0])
    assert min(gains) > 0, gains
    assert sum(gains) / len(gains) > 0.02, gains


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(
        UsageError, match="noise_injection is a method to train mlp, not a network with a head; 'deepcanon unwrap"
    ):
        Transfer(NoiseInjection(MLP(features=2, classes=2)), classes=3)
    with pytest.raises(UsageError, match="the head of mlp has 3 classes, not 2: take a new one"):
        Transfer(net(), classes=2, head="kept")
    with pytest.raises(UsageError, match="mlp does not predict classes, so it cannot learn 2"):
        Transfer(MLP(features=2, targets=1), classes=2)
    with pytest.raises(UsageError, match="wraps a model with predict; Toy has no predict"):
        Transfer(Toy(2))
    with pytest.raises(UsageError, match="backbone must be one of frozen, fine-tuned"):
        Transfer(net(), backbone="cold")  # type: ignore[arg-type]


def sentence_classes() -> SentencePairs:
    """Pairs of sentences of which a word in the second says the class."""
    random = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 3
    x = torch.randint(3, 8, (240, 9), generator=random)
    x[:, 0], x[:, 4], x[:, 8] = 1, 2, 2
    x[torch.arange(240), 5 + torch.randint(3, (240,), generator=random)] = 8 + y
    return SentencePairs(x, torch.full((240,), 9), (torch.arange(9) > 4).long().expand(240, -1).contiguous(), y)


def pretrained() -> BERT:
    torch.manual_seed(0)
    batch = sentence_classes()
    model = BERT(12, 9, 11, 1, 2, layers=1, heads=2, embedding=16)
    fit_to(model, SentencePairs(batch.x, batch.lengths, batch.segments, batch.y % 2))
    return model


def fit_to(model: Model[Any], batch: SentencePairs) -> None:
    parts = {"lengths": batch.lengths, "segments": batch.segments}
    dc.fit(model, dc.data.of(batch.x, batch.y, **parts), steps=60, batch_size=48, lr=1e-2, quiet=True)


@pytest.mark.slow
def test_a_pretrained_bert_is_fine_tuned_to_classes_of_sentence_pairs() -> None:
    batch, model = sentence_classes(), pretrained()
    masked = model.mask_projection.weight.detach().clone()
    words = model.token_embedding.weight.detach().clone()
    method = Transfer(model, classes=3, backbone="fine-tuned")
    assert model.next_head.out_features == 3
    fit_to(method, batch)
    found = dc.evaluate(method, batch)
    assert set(found) == {"loss", "nll", "accuracy"}
    assert found["accuracy"] > 0.95
    assert torch.equal(model.mask_projection.weight, masked)  # which takes no part
    assert not torch.equal(model.token_embedding.weight, words)
    rebuilt = BERT(**model.hparams)
    rebuilt.load_state_dict(model.state_dict())
    logits = rebuilt.eval()(*batch.inputs)[1]
    wanted = torch.nn.functional.cross_entropy(logits, batch.y)
    torch.testing.assert_close(rebuilt.loss(batch)["nll"], wanted)
    assert torch.equal(method.predict(*batch.inputs), logits.argmax(-1))  # type: ignore[operator]


def test_a_frozen_bert_learns_by_its_head_alone() -> None:
    torch.manual_seed(0)
    model = BERT(12, 9, 11, 1, 2, layers=1, heads=2, embedding=16)
    before = copy.deepcopy(model.state_dict())
    fit_to(Transfer(model, classes=3), sentence_classes())
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before.get(name, value))}
    assert moved <= {"next_head.weight", "next_head.bias"}
    batch = sentence_classes()
    with pytest.raises(DataError, match="the model has the classes 0 to 2, got the class 3"):
        model.prepare([SentencePairs(batch.x, batch.lengths, batch.segments, batch.y + 1)])


WORDS = {"food": ("bread", "cake", "soup"), "sea": ("boat", "raft", "ship")}


def labeled_texts(path: Path, count: int = 60) -> str:
    lines = ["text,topic"]
    for number in range(count):
        topic = ("food", "sea")[number % 2]
        lines.append(f"now the {WORDS[topic][number % 3]} is in the kitchen or xyzzy,{topic}")
    path.write_text("\n".join(lines) + "\n")
    return f"{path}:text"


@pytest.mark.slow
def test_a_run_of_bert_is_fine_tuned_to_labeled_texts_of_a_file_by_transfer_and_lora(tmp_path: Path) -> None:
    """The file is read in the words of the run, as rows of one sentence; new texts are predicted alike."""
    file = labeled_texts(tmp_path / "texts.csv")
    dc.Run.train("bert:layers=1,embedding=16", "stories", steps=4, batch_size=8, out=tmp_path / "bert", quiet=True)
    settings: dict[str, Any] = {"target": "topic", "lr": 1e-2, "quiet": True}
    asked = blueprint("transfer", {"model": tmp_path / "bert", "backbone": "fine-tuned"})
    run = dc.Run.train(asked, file, steps=60, out=tmp_path / "tuned", **settings)
    batch, stories = run.data.train, dc.load_data("stories")
    assert isinstance(batch, SentencePairs)
    assert run.data.vocabulary == stories.vocabulary
    row = [stories.vocabulary[token] for token in batch.x[0, : batch.lengths[0]].tolist()]
    assert row[:3] == ["<class>", "now", "the"]
    assert row[-6:] == ["in", "the", "kitchen", "<unk>", "<unk>", "<sep>"]
    assert not batch.segments.any()
    assert run.scores["test"]["accuracy"] == 1
    new = labeled_texts(tmp_path / "new.csv", 6)
    assert run.predict(new)["prediction"] == ["food", "sea"] * 3
    further = dc.Run.train(
        blueprint("lora", {"model": tmp_path / "tuned"}), file, steps=4, out=tmp_path / "lora", **settings
    )
    assert further.scores["test"]["accuracy"] == 1
    assert dc.Run(tmp_path / "lora").evaluate()["test"]["accuracy"] == 1
    (tmp_path / "numbers.csv").write_text("text,stars\n" + "".join(f"a b c d e {i},{i / 7}\n" for i in range(40)))
    with pytest.raises(UsageError, match=r"the model learns classes of texts; the column 'stars' .* gives numbers"):
        dc.Run.train(asked, tmp_path / "numbers.csv", target="stars", steps=1, out=tmp_path / "no", quiet=True)


def test_lora_tunes_a_bert_with_a_new_head_and_leaves_its_weights() -> None:
    torch.manual_seed(0)
    model = BERT(12, 9, 11, 1, 2, layers=1, heads=2, embedding=16)
    words = model.token_embedding.weight.detach().clone()
    method: LoRA[Any] = LoRA(Transfer(model, classes=3, backbone="fine-tuned"), rank=2)
    batch = sentence_classes()
    before = float(method.loss(batch)["nll"].detach())
    fit_to(method, batch)
    assert float(method.loss(batch)["nll"].detach()) < before - 0.1
    inner = model.token_embedding.get_parameter("parametrizations.weight.original")
    assert torch.equal(inner, words)
    assert torch.equal(method.unwrapped().predict(*batch.inputs), method.predict(*batch.inputs))  # type: ignore[operator]
