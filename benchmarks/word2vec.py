"""word2vec compared with gensim: the same text, windows, dimensions and noise, one worker, float32, one thread.

    python benchmarks/word2vec.py [--schemes cbow] [--objectives negative] [--light] [--rounds 3] [--epochs 5]
        [--json FILE]

Whole trainings are interleaved in one process, in processor time; words per second count every word of the text, kept
or skipped, as gensim does. Ours runs through the trainer with its defaults, but for the evaluation at the end, which
gensim has not; with ``--light`` blocks share fewer noise words and batches are larger, which is faster and learns less
in an epoch. The quality of vectors is reported, too: the loss on held-out text, by one and the same function for both,
and how many of the ten nearest neighbors of the 200 most frequent words both have in common, next to two trainings of
gensim from different seeds. With the hierarchical softmax the paths of gensim's tree are its own, and its loss is by
these. Since losses differ after as many epochs, the fewest epochs of ours that reach gensim's held-out loss are timed
against all of gensim's, too.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import itertools
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import gensim
import torch
from side_by_side import interleaved
from torch.nn.functional import pad

import deepcanon as dc
from deepcanon.core import Sequences
from deepcanon.data import Dataset
from deepcanon.models.words.word2vec import Objective, Scheme, Word2Vec
from deepcanon.train import evaluate

LATENT, WINDOW, NEGATIVES, SUBSAMPLE = 100, 5, 5, 1e-3
OBJECTIVES: tuple[Objective, ...] = ("negative", "hierarchical")
LIGHT: dict[str, Any] = {"draws": 8, "batch_size": 128, "lr": 0.14}
ALPHA = 0.025
"""gensim's own rate, with its own decay."""


def ours(
    data: Dataset[Sequences],
    scheme: Scheme,
    objective: Objective,
    epochs: int,
    seed: int,
    draws: int = 16,
    **settings: Any,
) -> Word2Vec:
    torch.manual_seed(seed)
    model = Word2Vec(
        data.sizes["vocab"],
        LATENT,
        scheme=scheme,
        objective=objective,
        window=WINDOW,
        negatives=NEGATIVES,
        subsample=SUBSAMPLE,
        draws=draws,
    )
    dc.fit(model, data, quiet=True, epochs=epochs, seed=seed, evaluate=False, **settings)
    return model


def theirs(
    data: Dataset[Sequences], sentences: list[list[str]], scheme: Scheme, objective: Objective, epochs: int, seed: int
) -> Word2Vec:
    """gensim's training, whose vectors are then put into a model of ours, which only measures."""
    tree = objective == "hierarchical"
    peer = gensim.models.Word2Vec(
        vector_size=LATENT, window=WINDOW, negative=0 if tree else NEGATIVES, hs=int(tree), sample=SUBSAMPLE,
        sg=int(scheme == "skip_gram"), min_count=1, alpha=ALPHA, workers=1, seed=seed,
    )  # fmt: skip
    peer.build_vocab(sentences)
    peer.train(sentences, total_examples=len(sentences), epochs=epochs)
    model = Word2Vec(
        data.sizes["vocab"], LATENT, scheme=scheme, objective=objective, window=WINDOW, subsample=SUBSAMPLE
    )
    model.prepare([data.train])
    rows = [peer.wv.key_to_index.get(str(word), 0) for word in range(data.sizes["vocab"])]
    model.vectors.data = torch.tensor(peer.wv.vectors[rows])
    model.contexts.data = torch.tensor(peer.syn1 if tree else peer.syn1neg[rows])
    if tree:
        model.nodes, model.sides = paths(peer, rows)
    model.vocabulary = data.vocabulary
    return model


def paths(peer: Any, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """gensim's own tree: the nodes on the path to each word, and which child follows (1 where its code is 0)."""
    points, codes = (
        [torch.tensor(peer.wv.get_vecattr(peer.wv.index_to_key[row], name).astype("int64")) for row in rows]
        for name in ("point", "code")
    )
    depth = max(map(len, codes))
    nodes = torch.stack([pad(path, (0, depth - len(path))) for path in points])
    sides = torch.stack([pad(1 - 2 * code, (0, depth - len(code))) for code in codes])
    return nodes, sides.float()


def shared_neighbors(left: Word2Vec, right: Word2Vec, words: int = 200, n: int = 10) -> float:
    """The share of the nearest neighbors that two sets of vectors have in common."""
    common = [
        len({name for name, _ in left.nearest(word, n)} & {name for name, _ in right.nearest(word, n)})
        for word in range(1, 1 + words)
    ]
    return statistics.mean(common) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", default="text:words", help="a text word by word")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved trainings of each candidate")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of each training")
    parser.add_argument("--schemes", nargs="+", choices=get_args(Scheme), default=list(get_args(Scheme)))
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--light", action="store_true", help=f"ours with {LIGHT}")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = LIGHT if arguments.light else {}
    loaded = dc.load_data(arguments.data)
    held_out = loaded.split("valid")
    data = replace(loaded, valid=None, test=None)  # nothing but the training is timed
    words = int(data.train.lengths.sum())
    sentences = [
        [str(word) for word in row[:length]]
        for row, length in zip(data.train.x.tolist(), data.train.lengths.tolist(), strict=True)
    ]
    print(f"torch {torch.__version__}, gensim {gensim.__version__}, {platform.machine()}, 1 thread")
    print(f"{arguments.data}: {words:,} words, {data.sizes['vocab']:,} different; {arguments.epochs} epochs")
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for scheme, objective in itertools.product(arguments.schemes, arguments.objectives):
        made: dict[str, list[Word2Vec]] = {"deepcanon": [], "gensim": []}
        task = f"{scheme}, {objective}"

        def trained(name: str, make: Callable[[int], Word2Vec], made: dict[str, list[Word2Vec]] = made) -> None:
            made[name].append(make(len(made[name])))

        def recipe(seed: int, scheme: Scheme = scheme, objective: Objective = objective) -> Word2Vec:
            return ours(data, scheme, objective, arguments.epochs, seed, **settings)

        def peer(seed: int, scheme: Scheme = scheme, objective: Objective = objective) -> Word2Vec:
            return theirs(data, sentences, scheme, objective, arguments.epochs, seed + 1)

        times = interleaved(
            {"deepcanon": lambda: trained("deepcanon", recipe), "gensim": lambda: trained("gensim", peer)},
            arguments.rounds, warm_up=1, clock=time.process_time,
        )  # fmt: skip
        first, second, *_ = made["gensim"]
        print(f"{task}: two trainings of gensim share {shared_neighbors(first, second):.0%} of the neighbors")
        numbers[task] = {}
        for name, seconds in times.items():
            rate = statistics.median(words * arguments.epochs / second for second in seconds)
            faster = statistics.median(b / a for a, b in zip(seconds, times["gensim"], strict=True))
            losses = [evaluate(model, held_out)["loss"] for model in made[name]]
            common = shared_neighbors(made[name][-1], first)
            row = {"words_per_second": rate, "faster_than_gensim": faster, "held_out_loss": statistics.mean(losses),
                   "neighbors_shared_with_gensim": common}  # fmt: skip
            numbers[task][name] = {key: round(value, 4) for key, value in row.items()}
            print(
                f"  {name:16} {rate / 1e3:7.0f}k words/s, {faster:5.2f}x gensim; "
                f"held-out loss {row['held_out_loss']:.3f} nats; {common:.0%} of gensim's neighbors"
            )
        wanted = statistics.mean(evaluate(model, held_out)["loss"] for model in made["gensim"])

        def reach(epochs: int, scheme: Scheme = scheme, objective: Objective = objective) -> Word2Vec:
            return ours(data, scheme, objective, epochs, 0, **settings)

        tried = range(1, arguments.epochs + 1)
        fewest = next((n for n in tried if evaluate(reach(n), held_out)["loss"] <= wanted), None)
        if fewest is None:
            print("  held-out loss of gensim: not reached")
            continue
        both = {"ours": partial(reach, fewest), "gensim": partial(peer, 0)}
        times = interleaved(both, arguments.rounds, warm_up=0, clock=time.process_time)
        sooner = statistics.median(b / a for a, b in zip(times["ours"], times["gensim"], strict=True))
        numbers[task]["to the loss of gensim"] = {"epochs": fewest, "faster_than_gensim": round(sooner, 4)}
        print(f"  to the held-out loss of gensim: {fewest} of {arguments.epochs} epochs, {sooner:.2f}x gensim")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
