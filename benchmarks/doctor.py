"""How often the doctor is right: planted faults, healthy runs, plain PyTorch, peers, and its cost while training.

    python benchmarks/doctor.py --part harm                # each fault next to its healthy twin: it does hurt
    python benchmarks/doctor.py --part faults              # faults planted in models of the catalogue
    python benchmarks/doctor.py --part plain               # faults planted in plain PyTorch modules and loops
    python benchmarks/doctor.py --part healthy --seeds 2   # every model by its recipe, and unusual sound settings
    python benchmarks/doctor.py --part peers               # other checkers on the faults in plain PyTorch
    python benchmarks/doctor.py --part cost                # the observer's share of the time of a step

Each case runs in a process of its own; what it found is appended to a file in --out, and cases that stand there are not
run again. Rates have 95 % intervals by Wilson's formula.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import deepcanon as dc
from deepcanon.diagnosis import clock
from deepcanon.diagnosis.doctor import checks

sys.path.insert(0, str(Path(__file__).parents[1]))  # the cases are those of the tests

from tests.diagnosis.cases.case import Case, is_named
from tests.diagnosis.cases.harm import harm, learned
from tests.diagnosis.cases.suites import faults, healthy

Row = dict[str, Any]
PATIENCE = 4
"""A case may take so many times the budget before it is ended."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["harm", "faults", "plain", "healthy", "peers", "cost"], required=True)
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--area", choices=["recipe", "data", "code", "family"], help="only faults of this kind")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--share", default="0/1", help="of all cases, those whose number leaves the rest a by b: a/b")
    parser.add_argument("--budget", type=float, default=60.0, help="the seconds that the doctor may take")
    parser.add_argument("--processor-time", action="store_true", help="budget of processor time, on a busy machine")
    parser.add_argument("--out", type=Path, default=Path("runs/doctor"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.part == "cost":
        import doctor_cost

        doctor_cost.main(asked.seeds)
        return
    if asked.processor_time:
        clock.now = time.process_time
    cases = chosen(asked.part, asked.only, asked.share, asked.area)
    seeds = range(asked.first, asked.first + asked.seeds)
    asked.out.mkdir(parents=True, exist_ok=True)
    rows = run(cases, seeds, examiner(asked.part, asked.budget), asked.out / f"{asked.part}.jsonl", asked.budget)
    print(table(asked.part, rows))


def chosen(part: str, only: str, share: str, area: str | None) -> list[Case]:
    """The cases of a part, or some of them."""
    lists: dict[str, Callable[[], list[Case]]] = {
        "harm": faults,
        "faults": lambda: faults(plain=False),
        "plain": lambda: faults(plain=True),
        "peers": lambda: [*faults(plain=True), *(case for case in healthy() if case.plain)],
        "healthy": healthy,
    }
    rest, by = map(int, share.split("/"))
    some = [case for case in lists[part]() if only in case.name and area in (None, case.area)]
    return [case for number, case in enumerate(some) if number % by == rest]


def examiner(part: str, budget: float) -> Callable[[Case, int], Row]:
    """The function that examines one case of a part."""
    if part == "harm":
        return harmed
    if part == "peers":
        import doctor_peers

        doctor_peers.load()
        return doctor_peers.examined
    importlib.import_module(
        "torch._dynamo"
    )  # which the first optimizer imports: here, not in the process of every case
    checks()
    return lambda case, seed: examined(case, seed, budget)


def harmed(case: Case, seed: int) -> Row:
    found = harm(case, seed)
    return {**found._asdict(), "left": found.left, "hurts": found.hurts}


def examined(case: Case, seed: int, budget: float) -> Row:
    """What the doctor names, first to last."""
    patient = case.patient(seed)
    report = dc.doctor(patient.model, patient.data, budget=budget, **patient.arguments())
    findings = list(report)
    return {
        "causes": [finding.cause for finding in findings],
        "says": [str(finding) for finding in findings],
        "examined": round(report.seconds, 2),
    }


def run(
    cases: Iterable[Case], seeds: Iterable[int], examine: Callable[[Case, int], Row], file: Path, budget: float
) -> list[Row]:
    """The rows of all cases and seeds, each in a process of its own; those of the file are taken from there."""
    known = {(row["case"], row["seed"]): row for row in read(file)}
    rows = []
    for seed in seeds:
        for case in cases:
            row = known.get((case.name, seed))
            if row is None:
                if examine is harmed:
                    learned(case.setting, seed)  # here, so that the processes of all its faults have it
                row = apart(case, seed, examine, PATIENCE * budget)
                with file.open("a") as end:
                    end.write(json.dumps(row) + "\n")
                print(f"{row['seconds']:5.1f} s  {case.name}: {told(row)}", file=sys.stderr, flush=True)
            rows.append({**row, "area": case.area, "expected": list(case.causes)})
    return rows


def read(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def told(row: Row) -> str:
    if "left" in row:
        return f"{row['left']:.0%} left" + ("" if row["hurts"] else ", which is no harm")
    if "peers" in row:
        return ", ".join(f"{peer} {found['signs']}" for peer, found in row["peers"].items())
    return f"{row.get('causes')}, expected {row['expected']}" if "error" not in row else row["error"].splitlines()[-1]


def apart(case: Case, seed: int, examine: Callable[[Case, int], Row], patience: float) -> Row:
    """Examine in a forked process, and end it if it takes too long."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)

    def work() -> None:
        torch.set_num_threads(1)
        try:
            its.send(examine(case, seed))
        except Exception:
            its.send({"error": traceback.format_exc()})

    process = context.Process(target=work)
    begun = time.perf_counter()
    process.start()
    its.close()
    try:
        row = mine.recv() if mine.poll(patience) else {"error": f"no answer within {patience:.0f} s"}
    except EOFError:
        row = {"error": "the process has died"}
    process.kill()
    process.join()
    seconds = round(time.perf_counter() - begun, 2)
    return {
        "case": case.name,
        "seed": seed,
        "area": case.area,
        "expected": list(case.causes),
        **row,
        "seconds": seconds,
    }


def table(part: str, rows: list[Row]) -> str:
    """The table of a part in Markdown, with the cases that it gets wrong below it."""
    if part == "harm":
        wrong = [row for row in rows if ("error" in row and "left" not in row) or not row.get("hurts")]
        lines = [f"- {row['case']}: {told(row)}" for row in wrong]
        return "\n".join([f"{len(rows) - len(wrong)} of {len(rows)} faults hurt", *lines])
    if part == "peers":
        import doctor_peers

        return doctor_peers.table(rows)
    return table_of_alarms(rows) if part == "healthy" else table_of_faults(rows)


def table_of_faults(rows: list[Row]) -> str:
    head = [
        "| faults of | right cause first | named at all | another cause only | nothing said |",
        "|---|---|---|---|---|",
    ]
    areas = dict.fromkeys(row["area"] for row in rows)
    body = [_counted(area, [row for row in rows if row["area"] == area]) for area in areas]
    missed = [f"- {row['case']}: {told(row)}" for row in rows if not _first(row)]
    return "\n".join([*head, *body, _counted("all", rows), "", *missed])


def _counted(name: str, rows: list[Row]) -> str:
    first, named = sum(map(_first, rows)), sum(map(_named, rows))
    silent = sum(not row.get("causes") for row in rows)
    n = len(rows)
    return f"| {name} ({n}) | {rate(first, n)} | {rate(named, n)} | {n - named - silent} | {silent} |"


def _first(row: Row) -> bool:
    return bool(row.get("causes")) and is_named(row["causes"][0], row["expected"])


def _named(row: Row) -> bool:
    return any(is_named(cause, row["expected"]) for cause in row.get("causes") or ())


def table_of_alarms(rows: list[Row]) -> str:
    alarms = [row for row in rows if row.get("causes") or "error" in row]
    lines = [f"- {row['case']}, seed {row['seed']}: {row.get('says') or told(row)}" for row in alarms]
    longest = max((row["seconds"] for row in rows), default=0.0)
    return "\n".join([f"{rate(len(alarms), len(rows))} of healthy runs alarmed, {longest:.0f} s at most", *lines])


def rate(count: int, n: int) -> str:
    """A share in percent with Wilson's interval.

    >>> rate(9, 10)
    '9 of 10 = 90 % (60 to 98)'
    """
    if n == 0:
        return "none"
    z, p = 1.96, count / n
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return f"{count} of {n} = {100 * p:.0f} % ({100 * max(0, low):.0f} to {100 * min(1, high):.0f})"


if __name__ == "__main__":
    main()
