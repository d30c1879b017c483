"""The log: a damaged line is named and the rest still read, whatever is done to it."""

from __future__ import annotations

import json
import os
import random
import time
import timeit
import zlib
from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.core.toy import Toy
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.log_lines import log_lines, read_lines, running_checksum

PATH = Path("log.jsonl")


def record(step: int) -> dict[str, Any]:
    loss = 1 / (step + 1)
    return {"kind": "step", "step": step, "epoch": 1, "seconds": 0.5, "terms": {"nll": loss}, "loss": loss, "lr": 0.1}


RECORDS = [record(step) for step in range(40)]
WHOLE, LAST = log_lines(RECORDS, 0)
LINES = WHOLE.splitlines(keepends=True)


def test_a_log_comes_back_as_it_was_written() -> None:
    assert read_lines(WHOLE, PATH) == (RECORDS, [])
    assert running_checksum(WHOLE) == LAST
    first, running = log_lines(RECORDS[:7], 0)
    assert first + log_lines(RECORDS[7:], running)[0] == WHOLE


def test_the_checksums_are_those_of_zlib() -> None:
    """The oracle is the definition: each record's own CRC-32, and that of all records one after the other."""
    plain = [json.dumps(each).encode() for each in RECORDS]
    for place, line in enumerate(LINES):
        check = json.loads(line)["check"]
        assert check == f"{zlib.crc32(plain[place]):08x}{zlib.crc32(b''.join(plain[: place + 1])):08x}"


@pytest.mark.slow
def test_no_flipped_bit_passes_in_silence() -> None:
    """Every bit of one line, one after the other: it is complained of, and all other lines are read."""
    place = 20
    others = [each for each in RECORDS if each["step"] != place]
    for bit in range(8 * len(LINES[place]) - 8):  # a line's end joins it to the next, which is the next test
        line = bytearray(LINES[place])
        line[bit // 8] ^= 1 << bit % 8
        records, complaints = read_lines(b"".join([*LINES[:place], line, *LINES[place + 1 :]]), PATH)
        assert complaints, line
        assert [each for each in records if each["step"] != place] == others
        assert all(each == RECORDS[each["step"]] for each in records)


def test_lines_that_are_lost_moved_or_put_in_are_noticed() -> None:
    chance = random.Random(0)
    for _ in range(50):
        lines, place = list(LINES), chance.randrange(1, 39)
        match chance.randrange(4):
            case 0:
                del lines[place]
            case 1:
                lines[place], lines[place - 1] = lines[place - 1], lines[place]
            case 2:
                lines.insert(place, chance.choice(LINES))
            case _:
                lines[place] = lines[place][:-1]  # joined to the next
        records, complaints = read_lines(b"".join(lines), PATH)
        assert complaints
        assert all(each == RECORDS[each["step"]] for each in records)


def test_damaged_lines_are_named() -> None:
    lines = list(LINES)
    lines[2], lines[9] = b"\x80\x04 pickle \xff\n", lines[9].replace(b"0.1,", b"0.2,")
    assert read_lines(b"".join(lines), PATH)[1] == [
        "log.jsonl is damaged: lines 3, 10 cannot be trusted, only the others are read"
    ]


def test_a_log_of_an_older_version_is_read_and_gone_on_with(tmp_path: Path) -> None:
    old = b"".join(json.dumps(each).encode() + b"\n" for each in RECORDS[:5])
    (tmp_path / "log.jsonl").write_bytes(old)
    folder = RunFolder(tmp_path, {})
    folder.append(RECORDS[5:])
    assert folder.checked_log() == (RECORDS, [])
    raw = (tmp_path / "log.jsonl").read_bytes()
    flipped = raw.replace(b'"step": 9', b'"step": 8')
    assert read_lines(flipped, PATH)[1] == ["log.jsonl is damaged: line 10 cannot be trusted, only the others are read"]


def test_a_finished_run_knows_how_its_log_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, batch = Toy.example()
    dc.fit(model, dc.from_tensors(batch.x), out=tmp_path, quiet=True, epochs=10)
    run, log = RunFolder.open(tmp_path), tmp_path / "log.jsonl"
    assert len(run.log()) == 10
    assert capsys.readouterr().err == ""
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert len(run.log()) == 9
    assert "10 lines belong there, it has 9" in capsys.readouterr().err
    log.write_bytes(log_lines(RECORDS[:10], 0)[0])
    run.log()
    assert "it is not the log that" in capsys.readouterr().err


def test_a_resume_says_what_its_log_has_lost_and_keeps_it_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, batch = Toy.example()
    data = dc.from_tensors(batch.x)
    unbroken = dc.fit(model, data, quiet=True, epochs=10).model.state_dict()
    dc.fit(Toy.example()[0], data, out=tmp_path, quiet=True, epochs=10, checkpoint_every=1, keep=99)
    for path in checkpoint.saved(tmp_path / "checkpoints")[7:]:
        os.rename(path, tmp_path / f"gone-{path.name}")
    run, log = RunFolder.open(tmp_path), tmp_path / "log.jsonl"
    run.update(status="running")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"lr": 0.1', b'"lr": 0.7')
    log.write_bytes(b"".join(lines))
    result = dc.resume(tmp_path, data, Toy, quiet=True)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{log} is damaged: line 4 cannot be trusted, only the others are read"]
    assert RunFolder.open(tmp_path).info["fallbacks"] == said
    assert [each["step"] for each in result.history] == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert all(result.model.state_dict()[name].equal(weight) for name, weight in unbroken.items())
    assert RunFolder.open(tmp_path).checked_log()[1] == said  # nothing else is wrong with it


def test_a_checksum_costs_the_trainer_next_to_nothing() -> None:
    """Of a line, which is written at most every step: less than a tenth of what making its JSON costs, or 20 us."""
    with_checks, without = (
        min(timeit.repeat(action, time.process_time, number=1, repeat=5))  # the least that other work has disturbed
        for action in (lambda: log_lines(RECORDS * 50, 0), lambda: [json.dumps(each) for each in RECORDS * 50])
    )
    assert (with_checks - without) / 2000 < 20e-6
