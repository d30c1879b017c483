"""Tiny Shakespeare: 1,115,394 characters of the plays, from Karpathy's char-rnn."""

from __future__ import annotations

import torch

from deepcanon.core import Sequences
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry
from deepcanon.data.text.windows import windows

TOKENS = ("\n", *" !$&',-.3:;?", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz")
LENGTH = 64
TRAIN = 0.9
"""The fraction of the text for training; nanoGPT validates on the other tenth, and published numbers are of it."""


def load(entry: Entry) -> Dataset[Sequences]:
    """The first nine tenths for training and the last tenth for validation; there is no test split."""
    (path,) = entry.remote.fetch()
    text = path.read_text(encoding="utf-8")
    code = {token: number for number, token in enumerate(entry.vocabulary)}
    codes = torch.tensor([code[token] for token in text])
    cut = int(TRAIN * len(text))
    return entry.dataset(windows(codes[:cut], LENGTH), windows(codes[cut:], LENGTH), None)


SHAKESPEARE = Entry(
    name="shakespeare",
    kind="text",
    shape=(LENGTH + 1,),
    sizes={"vocab": len(TOKENS), "length": LENGTH},
    counts=(15686, 1743, 0),
    source="the plays of Shakespeare, 1.1 million characters (Karpathy, 2015), https://github.com/karpathy/char-rnn",
    load=load,
    vocabulary=TOKENS,
    remote=Remote(
        folder="tinyshakespeare",
        mirrors=(
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
            "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/",
            "https://raw.githubusercontent.com/dmlc/web-data/master/mxnet/tinyshakespeare/",
        ),
        files=(RemoteFile("input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),),
    ),
)
