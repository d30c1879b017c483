"""Attack the library: ``python -m tests.attacks --damaged 500 --kills 200 --seed 0``, from the root of the repository.

Every trial is a process that must end within a minute of processor time, without a traceback, and never with another
number unsaid. The command ends with a line for each attack and the code 1 if one has come through; ``--only 37``
repeats one trial alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.attacks._frame import attacks, trials


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__.partition("\n")[0])
    for name in attacks():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, metavar="TRIALS", dest=name)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of the one trial to do, of the attack that is named")
    given = parser.parse_args()
    faults = 0
    for name, attack in attacks().items():
        count = getattr(given, name)
        if not count:
            continue
        numbers = range(count) if given.only is None else [given.only]
        began, done, found = time.monotonic(), 0, 0
        with tempfile.TemporaryDirectory() as folder:
            ready = Path(folder) / "ready"
            ready.mkdir()
            for number, trial in trials(attack(ready), name, numbers, given.seed, Path(folder)):
                done += 1
                found += bool(trial.fault)
                if done % 50 == 0:
                    print(f"{name}: {done} of {len(numbers)} trials, {found} faults", file=sys.stderr, flush=True)
                if trial.fault or given.only is not None:
                    print(f"{name} {number}: {trial.what}: {trial.fault or 'held'}", flush=True)
        faults += found
        print(f"{name}: {done} trials, {found} faults, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
