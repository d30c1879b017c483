"""The command ``data``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output


def data(json: Json = False) -> None:
    """List the data sets: what they are, how large, where they come from, whether they are here."""
    from deepcanon.data import describe_data

    rows = describe_data()
    out = Output(json)
    out.table(
        ["data", "gives", "shape", "train", "valid", "test", "here", "source"],
        [
            (
                row["name"], row["kind"], "x".join(map(str, row["shape"])), row["train"], row["valid"], row["test"],
                _where(row), row["source"],
            )
            for row in rows
        ],
        numbers=["train", "valid", "test"],
    )  # fmt: skip
    out.say(
        "Images and videos also come as NAME:binary, NAME:spins, NAME:dequantized and, in whole gray levels, as "
        "NAME:levels."
    )
    out.say("Your own data: file.csv, or a folder of images.")
    out.say("A text also comes word by word as NAME:words, or NAME:words=5 with words that occur five times or more.")
    out.say("What has classes also comes as NAME:labels=40: with 40 labels, all other training examples unlabeled.")
    out.result({"data": rows})


def _where(row: Mapping[str, Any]) -> str:
    if row["here"]:
        return "yes"
    return "to be downloaded" if row["downloadable"] else f"not in $DEEPCANON_DATA/{row['folder']}"
