"""Translations of Multi30k by a trained model: BLEU on the test of 2016, next to sentences that nobody translated.

    deepcanon train transformer --data multi30k-de-en --steps 2200 --seed 0 --threads 1 --out RUN
    python benchmarks/translation.py RUN [--beams 4] [--json results.json]

The data lie in the folder that DEEPCANON_DATA names, or are downloaded. BLEU is sacrebleu's of whole sentences as they
are written, with its signature, so that it can be compared with published ones. The baselines are the source itself,
and the translation of the training sentence that is most like the source by its words (TF-IDF, cosine), which shows how
much alike captions are. ``nll`` is in nats per subword of the target given the true ones before it; the model that
knows only how frequent each subword is has the one next to it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

import deepcanon as dc
from deepcanon.core import SequencePairs
from deepcanon.data.text.tokenizers import tokenizer_of
from deepcanon.models.autoregressive.markov_chain import MarkovChain
from deepcanon.train.evaluation import evaluate

AT_ONCE = 100


def texts(data: Any, part: SequencePairs) -> tuple[list[str], list[str]]:
    """The sentences of the source and of the target."""
    made = data.preprocessing
    source = tokenizer_of(data.vocabulary, {"tokenizer": made["tokenizer"]})
    target = tokenizer_of(data.target_vocabulary, {"tokenizer": made["target_tokenizer"]})
    return (
        [source.decode(row[:end]) for row, end in zip(part.x.tolist(), part.lengths.tolist(), strict=True)],
        [target.decode(row[:end]) for row, end in zip(part.y.tolist(), part.y_lengths.tolist(), strict=True)],
    )


def retrieved(data: Any, sources: list[str]) -> list[str]:
    """For each source the translation of the training sentence that is most like it."""
    known, translations = texts(data, data.train)
    words = TfidfVectorizer(sublinear_tf=True).fit(known)
    nearest = (words.transform(sources) @ words.transform(known).T).argmax(1)
    return [translations[int(row)] for row in nearest.flatten().tolist()[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a trained run")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    run = dc.Run(options.run)
    data: Any = run.data
    test = data.split("test")
    sources, wanted = texts(data, test)
    bleu = sacrebleu.BLEU()
    begun = time.process_time()
    written = [
        text
        for start in range(0, len(sources), AT_ONCE)
        for text in run.translate(*sources[start : start + AT_ONCE], beams=options.beams)
    ]
    seconds = time.process_time() - begun
    rows = {
        f"{run.model.name()}, {options.beams} beams": written,
        "the most similar training sentence's": retrieved(data, sources),
        "the source itself": sources,
    }
    scores = {name: bleu.corpus_score(row, [wanted]).score for name, row in rows.items()}
    print(
        f"BLEU of {len(sources):,} sentences, {bleu.get_signature()}; translated in {seconds:.0f} s of processor time"
    )
    for name, score in scores.items():
        print(f"  {name:40} {score:5.1f}")
    chain = MarkovChain.of(data.train.y, data.train.y_lengths, data.sizes["target_vocab"], order=0)
    with torch.no_grad():
        alone = -float(chain.log_prob(test.y, lengths=test.y_lengths).sum()) / int((test.y_lengths - 1).sum())
    nll = evaluate(run.model, test)["nll"]
    print(f"nll of the test {nll:.3f} nats per subword (frequencies alone: {alone:.3f})")
    for source, mine, true in list(zip(sources, written, wanted, strict=True))[:3]:
        print(f"  {source}\n    {mine}\n    ({true})")
    if options.json:
        options.json.write_text(json.dumps({"bleu": scores, "nll": nll, "frequencies": alone}, indent=1) + "\n")


if __name__ == "__main__":
    main()
