"""BERT and T5 compared with Hugging Face's of the same size: a training step of each.

    python benchmarks/bert_t5.py [--part bert] [--steps 60] [--vocab 8000] [--json results.json]

BERT has 4 layers, T5 has 4 and 4, both 256 wide with 4 heads, 1,024 inside their MLPs, no dropout, 8,000 tokens unless
another number is given, the same initial weights, float32, one thread. A step of BERT is the loss of 16 rows of 128
tokens, of which 19 are masked, and of the labels of the rows; a step of T5 that of 16 sources of 114 tokens and targets
of 32, as span corruption makes them of 128. Then follow the gradient, clipping and a fused AdamW: ours by the Trainer,
theirs by a plain loop. Ours masks anew at every step; theirs finds its rows masked already. After every step of ours
the other takes one, in one process; what counts is the median of the ratios of neighbors, in processor time. Hugging
Face takes part twice: what its two copies differ by is the error of this measurement. The goal is 1.3 times as fast.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import importlib
import json
import platform
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from gpt import FOREVER, LR, WARM_UP, Alternation, Step
from relay import Over
from side_by_side import Times, table
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Model, SentencePairs, SequencePairs
from deepcanon.data import Dataset
from deepcanon.interop.bert_names import load_bert
from deepcanon.interop.t5_names import load_t5
from deepcanon.models.attention.bert import BERT
from deepcanon.models.attention.t5 import T5
from deepcanon.train import Trainer
from deepcanon.train.settings import resolve_settings

ROWS, LENGTH, SOURCE, TARGET, BATCHES = 16, 128, 114, 32, 20
LAYERS, HEADS, WIDTH = 4, 4, 256
GOAL = "1.3x"
transformers: Any = importlib.import_module("transformers")
Loss = Callable[[Any, Tensor], Tensor]


def bert_pair(vocab: int) -> tuple[BERT, list[Any]]:
    """Ours, and Hugging Face's twice, with the same weights."""
    config = transformers.BertConfig(
        vocab_size=vocab, max_position_embeddings=LENGTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        hidden_size=WIDTH, intermediate_size=4 * WIDTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    peers = copies(lambda: transformers.BertForPreTraining(config))
    ours = BERT(vocab, LENGTH, 0, 1, 2, layers=LAYERS, heads=HEADS, embedding=WIDTH)
    load_bert(ours, peers[0].state_dict())
    return ours, peers


def t5_pair(vocab: int) -> tuple[T5, list[Any]]:
    config = transformers.T5Config(
        vocab_size=vocab, d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=4 * WIDTH, num_layers=LAYERS, num_heads=HEADS,
        dropout_rate=0.0, decoder_start_token_id=0,
    )  # fmt: skip
    peers = copies(lambda: transformers.T5ForConditionalGeneration(config))
    ours = T5(vocab, vocab, 0, 1, layers=LAYERS, heads=HEADS, embedding=WIDTH)
    load_t5(ours, peers[0].state_dict())
    return ours, peers


def copies(make: Callable[[], Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        first, second = make(), make()
    second.load_state_dict(first.state_dict())
    return [first.train(), second.train()]


def sentences(vocab: int) -> SentencePairs:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(3, vocab, (BATCHES * ROWS, LENGTH), generator=generator)
    x[:, 0], x[:, LENGTH // 2], x[:, -1] = 1, 2, 2
    segments = (torch.arange(LENGTH) > LENGTH // 2).long().expand(len(x), -1).contiguous()
    return SentencePairs(x, torch.full((len(x),), LENGTH), segments, torch.arange(len(x)) % 2)


def pairs(vocab: int) -> SequencePairs:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randint(2, vocab, (BATCHES * ROWS, length), generator=generator) for length in (SOURCE, TARGET + 1))
    y[:, 0], y[:, -1] = 0, 1
    return SequencePairs(x, torch.full((len(x),), SOURCE), y, torch.full((len(x),), TARGET + 1))


def bert_loss(ours: BERT, batch: SentencePairs) -> Loss:
    """The loss of Hugging Face's, of rows that are masked before the first step."""
    masked = ours.masking.draw(batch.x, batch.lengths)
    labels = torch.full_like(batch.x, -100).scatter(1, masked.places, masked.true)

    def loss(peer: Any, index: Tensor) -> Tensor:
        shown, segments, y, wanted = (part[index] for part in (masked.shown, batch.segments, batch.y, labels))
        found: Tensor = peer(
            input_ids=shown, token_type_ids=segments, labels=wanted, next_sentence_label=y, return_dict=True
        ).loss
        return found

    return loss


def t5_loss(batch: SequencePairs) -> Loss:
    def loss(peer: Any, index: Tensor) -> Tensor:
        found: Tensor = peer(input_ids=batch.x[index], labels=batch.y[index][:, 1:].contiguous(), use_cache=False).loss
        return found

    return loss


def plain_loop(peer: Any, loss: Loss, count: int) -> Step:
    """A step of the fastest plain loop: index select and the fused optimizer, nothing logged."""
    optimizer = torch.optim.AdamW(peer.parameters(), lr=LR, fused=True)
    order: list[Tensor] = []

    def step() -> None:
        if not order:
            order.extend(torch.randperm(count).split(ROWS))
        optimizer.zero_grad()
        loss(peer, order.pop()).backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()

    return step


def alternating(model: Model[Any], batch: AnyBatch, others: Mapping[str, Step], steps: int) -> Times:
    """Seconds of every step of our Trainer, with log and gradient norms, and of the others."""
    kind: Any = "sentences" if isinstance(batch, SentencePairs) else "pairs"
    data: Dataset[Any] = Dataset(name="random", kind=kind, train=batch)
    settings = resolve_settings(model.recipe, optimizer="adamw", lr=LR, batch_size=ROWS, epochs=FOREVER)
    alternation = Alternation(others, steps)
    with suppress(Over):
        Trainer(model, data, settings, quiet=True, observers=[alternation]).fit()
    return {name: seconds[WARM_UP:] for name, seconds in alternation.times.items()}


def candidates(part: str, vocab: int) -> tuple[Model[Any], AnyBatch, dict[str, Step]]:
    """Ours, its data, and the steps of both copies of Hugging Face's; all have one loss, by as many parameters."""
    ours: Any
    batch: Any
    if part == "bert":
        (ours, peers), batch = bert_pair(vocab), sentences(vocab)
        loss = bert_loss(ours, batch)
    else:
        (ours, peers), batch = t5_pair(vocab), pairs(vocab)
        loss = t5_loss(batch)
        wanted, found = loss(peers[0], torch.arange(ROWS)), ours.loss(batch.select(torch.arange(ROWS)))["nll"]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (ours, peers[0])]
    assert counts[0] == counts[1], counts
    names = ("Hugging Face", "Hugging Face again")
    return ours, batch, {name: plain_loop(peer, loss, len(batch)) for name, peer in zip(names, peers, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--part", choices=("bert", "t5"), help="only one of both")
    parser.add_argument("--steps", type=int, default=60, help="training steps of each candidate")
    parser.add_argument("--vocab", type=int, default=8000, help="the number of different tokens")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    numbers = {}
    for part in ("bert", "t5"):
        if arguments.part in (None, part):
            ours, batch, others = candidates(part, arguments.vocab)
            times = alternating(ours, batch, others, arguments.steps)
            title = f"{part}: a training step of {ROWS} rows, {arguments.vocab} tokens (goal: {GOAL})"
            numbers[part] = table(title, times, "deepcanon")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
