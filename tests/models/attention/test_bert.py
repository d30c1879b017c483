"""BERT has the published sizes, predicts what it masks, and what it learns does not depend on how data are cut."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from deepcanon.core import DataError, SentencePairs, UsageError
from deepcanon.data import load_data
from deepcanon.models.attention.bert import BERT
from deepcanon.runs.run import Run
from deepcanon.train import evaluate, fit
from tests.processes import done, killed, together

SIZES = {"vocab": 11, "length": 12, "mask_token": 0, "class_token": 1, "separator_token": 2}


def small(**options: Any) -> BERT:
    torch.manual_seed(0)
    model = BERT(**{**SIZES, "layers": 2, "heads": 2, "embedding": 16, **options}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def pairs(rows: int = 6) -> SentencePairs:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(3, 11, (rows, 12), generator=generator)
    lengths = torch.tensor([12, 7, 9, 5, 12, 8] * (rows // 6))
    x[:, 0] = 1
    x[:, 2] = 2
    x.scatter_(1, lengths[:, None] - 1, 2)
    segments = (torch.arange(12) > 2).long().expand(rows, -1).contiguous()
    return SentencePairs(x, lengths, segments, torch.arange(rows) % 2)


def test_the_published_sizes() -> None:
    with torch.device("meta"):
        model = BERT(30522, 512, 103, 101, 102, layers=12, heads=12, embedding=768)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    heads = sum(size for name, size in sizes.items() if name.startswith(("mask_", "next_head")))
    pooler = sum(size for name, size in sizes.items() if name.startswith("pooler"))
    assert sum(sizes.values()) == 110_106_428
    assert sum(sizes.values()) - heads == 109_482_240
    assert sum(sizes.values()) - heads - pooler == 108_891_648


@pytest.mark.parametrize("padding", [-1, 10, 99])
@torch.no_grad()
def test_padding_changes_nothing(padding: int) -> None:
    model, batch = small(), pairs()
    inside = torch.arange(12) < batch.lengths[:, None]
    x = torch.where(inside, batch.x, padding)
    found, wanted = model(x, batch.lengths, batch.segments), model(*batch.inputs)
    assert torch.equal(found[0][inside], wanted[0][inside])
    assert torch.equal(found[1], wanted[1])
    for row, length in enumerate(batch.lengths.tolist()):
        tokens, label = model(batch.x[row : row + 1, :length], segments=batch.segments[row : row + 1, :length])
        torch.testing.assert_close(tokens[0], wanted[0][row, :length])
        torch.testing.assert_close(label[0], wanted[1][row])
    other = SentencePairs(x, batch.lengths, batch.segments, batch.y)
    losses = []
    for each in (batch, other):
        torch.manual_seed(3)
        losses.append(torch.stack(list(model.loss(each).values())))
    assert torch.equal(*losses)


def test_what_is_no_token_or_row_of_it_is_refused() -> None:
    model, batch = small(), pairs()
    for token in (11, -1):
        x = batch.x.clone()
        x[1, 3] = token
        wrong = SentencePairs(x, batch.lengths, batch.segments, batch.y)
        with pytest.raises(DataError, match=f"from 0 to 10; got {token} at position 3 of row 1"):
            model.loss(wrong)
        with pytest.raises(DataError, match=f"got {token} at position 3"):
            model.prepare([wrong])
    with pytest.raises(DataError, match="a row has up to 12 tokens; got 13"):
        model(torch.ones(1, 13, dtype=torch.long))
    with pytest.raises(DataError, match="lengths from 1 to 12; got from 0"):
        model(batch.x, batch.lengths * 0, batch.segments)
    with pytest.raises(DataError, match=r"segments are 0 or 1 for each token, .* got 2"):
        model(batch.x, batch.lengths, batch.segments + 1)
    with pytest.raises(UsageError, match="share"):
        small(share=0.0)
    with pytest.raises(UsageError, match="how must be one of"):
        model.predict(*batch.inputs, how="median")  # type: ignore[arg-type]


@torch.no_grad()
def test_the_loss_is_that_of_the_masked_tokens_and_of_the_labels() -> None:
    model, batch = small(), pairs()
    torch.manual_seed(5)
    terms, metrics, _ = model.evaluated(batch)
    torch.manual_seed(5)
    shown, places, true, counted = model.masking.draw(batch.x, batch.lengths)
    tokens, labels = model(shown, batch.lengths, batch.segments)
    nats, told, right, right_label = [], [], [], []
    for row in range(len(batch)):
        for place, token, counts in zip(places[row], true[row], counted[row], strict=True):
            if counts:
                nats.append(-tokens[row, place].log_softmax(-1)[token])
                right.append(float(tokens[row, place].argmax() == token))
                told.append(-labels[row].log_softmax(-1)[batch.y[row]])
                right_label.append(float(labels[row].argmax() == batch.y[row]))
    torch.testing.assert_close(terms["masked_nll"], torch.stack(nats).mean())
    torch.testing.assert_close(terms["next_nll"], torch.stack(told).mean())
    assert float(metrics["masked_accuracy"]) == pytest.approx(sum(right) / len(right))
    assert float(metrics["next_accuracy"]) == pytest.approx(sum(right_label) / len(right_label))
    assert model.weight_of(batch) == len(nats)


@torch.no_grad()
def test_parts_of_a_batch_weigh_as_many_terms_as_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accumulation over parts is one big batch: with the same tokens masked, the weighted losses of parts add up."""
    model, batch = small(), pairs()
    whole = model.masking.draw(batch.x, batch.lengths)
    torch.manual_seed(0)
    parts = [torch.arange(0, 2), torch.arange(2, 5), torch.arange(5, 6)]
    total, weight = 0.0, 0.0
    given: list[Any] = [whole]
    monkeypatch.setattr(type(model.masking), "draw", lambda *_: given.pop())
    wanted = sum(model.loss(batch).values())
    for index in parts:
        given.append(type(whole)(*(part.index_select(0, index) for part in whole)))
        part = batch.select(index)
        weight += model.weight_of(part)
        total += model.weight_of(part) * float(sum(model.loss(part).values()))
    assert weight == model.weight_of(batch)
    assert total / weight == pytest.approx(float(wanted), rel=1e-12)


@torch.no_grad()
def test_masks_are_filled_in_and_nothing_else() -> None:
    model, batch = small(), pairs()
    x = batch.x.clone()
    x[0, 4] = x[2, 1] = x[1, 10] = 0  # the last one is in the padding
    found = model.fill(x, batch.lengths, batch.segments)
    logits = model(x, batch.lengths, batch.segments)[0]
    assert found[0, 4] == logits[0, 4].argmax()
    assert found[2, 1] == logits[2, 1].argmax()
    assert (found != x).sum() <= 2
    assert torch.equal(model.fill(batch.x, batch.lengths, batch.segments), batch.x)


@pytest.mark.slow
@torch.no_grad()
def test_predictions_attention_and_codes() -> None:
    model, batch = small(), pairs()
    mean = model.predict(*batch.inputs, how="mean")
    torch.testing.assert_close(mean.sum(1), torch.ones(6).double())
    assert torch.equal(mean.argmax(1), model.predict(*batch.inputs))
    drawn = torch.stack([model.predict(*batch.inputs, how="sample") for _ in range(400)]).double().mean(0)
    assert (drawn - mean[:, 1]).abs().max() < 0.12
    maps = model.attention_maps(*batch.inputs)
    assert maps.shape == (2, 6, 2, 12, 12)
    inside = torch.arange(12) < batch.lengths[:, None]
    assert not maps.transpose(0, 1).permute(0, 4, 1, 2, 3)[~inside].any()  # no key is padding
    tokens, pooled = model.encode(*batch.inputs)
    torch.testing.assert_close(model.pooler(tokens[:, 0]).tanh(), pooled)


def test_segments_and_positions_are_told_apart() -> None:
    model, batch = small(), pairs()
    assert not torch.equal(model(batch.x, batch.lengths)[1], model(*batch.inputs)[1])
    swapped = batch.x[:, [0, 1, 2, 4, 3, *range(5, 12)]]
    assert not torch.allclose(model(swapped, batch.lengths)[1], model(batch.x, batch.lengths)[1])


def test_initial_weights_are_those_of_bert_base_at_its_width() -> None:
    for width in (64, 768):
        model = BERT(**SIZES, layers=1, heads=4, embedding=width)
        wanted = 0.02 * (768 / width) ** 0.5
        assert model.pooler.weight.std().item() == pytest.approx(wanted, rel=0.05)
        assert not model.pooler.bias.any()


@pytest.mark.slow
def test_it_learns_to_fill_in_masked_words() -> None:
    torch.manual_seed(0)
    data = load_data("stories")
    model = BERT(**data.sizes)
    fit(model, data, quiet=True, steps=200, evaluate=False)
    found = evaluate(model, data.split("valid").select(torch.arange(300)))
    assert found["masked_accuracy"] > 0.6


TRAIN = ("train", "bert", "--data", "stories", "--layers", "1", "--heads", "2", "--embedding", "16", "--threads", "1")


@pytest.mark.slow
def test_a_run_on_stories_is_killed_resumed_evaluated_and_predicts(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From the command line: a run killed with SIGKILL and resumed has the bits of one that was not."""

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train = (*TRAIN, "--steps", "60", "--checkpoint-every", "5", "--batch-size", "8")
    done(*train, "--out", whole)
    killed(*train, "--out", broken, step=10)
    request.getfixturevalue("drawn")
    done("resume", broken)
    wanted, found = (safetensors.torch.load_file(run / "model.safetensors") for run in (whole, broken))
    assert all(torch.equal(value, found[name]) for name, value in wanted.items())
    done("evaluate", whole)
    Run(whole).predict("stories", out=tmp_path / "predictions.csv")
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert lines[0] == "prediction,probability_next,probability_other"
    assert len(lines) == 1001
    assert {"curves.png", "confusion.png", "attention.png"} <= {p.name for p in (broken / "pictures").iterdir()}


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """On one full batch, whose masks are the same however it is shared out."""
    train = (*TRAIN, "--steps", "4", "--batch-size", "9", "--optimizer", "sgd")
    done(*train, "--out", tmp_path / "alone")
    together(*train, "--out", tmp_path / "two")
    two, alone = (safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("two", "alone"))
    for name, value in alone.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-5)
