"""The studio next to TensorBoard and trackio on the same curves: start, first paint, curves, memory; its own speeds.

    python benchmarks/studio.py FOLDER --part make|start|ours|switch|server|tensorboard|trackio|training
        [--runs 200] [--points 100000] [--of ours tensorboard trackio]

``make`` writes runs of so many logged points for all three, or for those of ``--of`` (ten different losses, each again
and again under other names). ``start`` starts each server three times, in turns, without a browser. ``ours``,
``tensorboard`` and ``trackio`` start one server on its runs, open its page in Chromium and say after how many seconds
the server answered, the page had its first contentful paint and a curve was there, what processor time the server and
its processes had used by then, and what memory they held (resident, of all processes, then and at most within half a
minute). ``ours`` also switches curves, zooms, and appends to a log while it is watched; ``switch`` does that alone,
after ``ours``. ``training`` trains a small mlp with and without a studio that watches it, in turns. ``server`` needs no
browser and no quiet machine: the processor time of what the server does for a page with all runs, and its memory.
trackio needs an environment of its own, since it takes no pillow from 13 on.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from studio_runs import DIFFERENT, make, makers

from deepcanon.runs.log_lines import log_lines

WATCH = """([event, shows]) => {
  const view = document.querySelector(".view");
  const first = { once: true, capture: true }, drawing = { attributeFilter: ["data-drawn"] };
  const began = new Promise((resolve) => addEventListener(event, (each) => resolve(each.timeStamp), first));
  const drawn = new Promise((resolve) => new MutationObserver(() => {
    if (!shows || view.dataset.shows === shows) resolve();
  }).observe(view, drawing));
  window.painted = Promise.all([began, drawn]).then(([from]) => new Promise((resolve) => requestAnimationFrame(() => {
    const after = new MessageChannel();  // a message from within a frame comes after it is painted
    after.port1.onmessage = () => resolve(performance.now() - from);
    after.port2.postMessage(0);
  })));
}"""
SHOWN = """step => new Promise((resolve) => {
  const last = () => document.querySelector(".behind td")?.textContent;
  const look = () => (last() === step ? resolve(Date.now()) : requestAnimationFrame(look));
  look();
})"""
THERE = """curve => new Promise((resolve) => {
  const look = () => (document.querySelector(curve) ? resolve(performance.now()) : requestAnimationFrame(look));
  look();
})"""
"""Scripts that run in the page: its own clock is exact, while who asks from outside hears late."""
WATCHED = 30.0
"""Seconds after the first curves in which the largest memory is looked for."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def used(process: int) -> dict[str, float]:
    """The memory and processor seconds of a process and all that it has started.

    Resident megabytes, where a page of a library that several of them have mapped counts once; and their plain sum.
    """
    tree = {process}
    parents = {int(each.name): each for each in Path("/proc").iterdir() if each.name.isdigit()}
    for _ in range(4):
        for number, place in parents.items():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent in tree:
                tree.add(number)
    own = seconds = every = 0.0
    files: dict[str, float] = {}
    for number in tree:
        try:
            times = (Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()
            parts = _mapped(number)
        except OSError:
            continue
        seconds += (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
        own += parts.pop("")
        every += sum(parts.values())
        files = {name: max(files.get(name, 0.0), parts.get(name, 0.0)) for name in files | parts}
    return {
        "processor, s": seconds,
        "memory, MB": own + sum(files.values()),
        "memory with shared pages in each process, MB": own + every,
    }


def _mapped(process: int) -> dict[str, float]:
    """The resident megabytes of a process by the file that they are of; "" are those of its own."""
    found, file = {"": 0.0}, ""
    for line in (Path("/proc") / str(process) / "smaps").read_text().splitlines():
        name, *words = line.split()
        if name == "Rss:":
            found[file] = found.get(file, 0.0) + int(words[0]) / 1000
        elif name == "Anonymous:" and file:  # pages of a file that the process has written to
            found[file] -= int(words[0]) / 1000
            found[""] += int(words[0]) / 1000
        elif not name.endswith(":"):
            file = words[4] if len(words) > 4 and words[4].startswith("/") else ""
    return found


def most_memory(process: int) -> dict[str, float]:
    """The largest memory of a process and all that it has started while its page stays open."""
    until = time.perf_counter() + WATCHED
    most: dict[str, float] = {}
    while time.perf_counter() < until:
        most = {name: max(value, most.get(name, 0.0)) for name, value in used(process).items() if "MB" in name}
        time.sleep(0.5)
    return {f"largest {name[:-4]} within {WATCHED:.0f} s, MB": value for name, value in most.items()}


def wait_for(address: str) -> None:
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).read()
            return
        except OSError:
            time.sleep(0.02)


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=shutil.which("chromium") or "chromium")
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(600_000)
        yield page
        chromium.close()


def opened(page: Any, address: str, curve: str) -> dict[str, float]:
    """Seconds to the first contentful paint and to the first curve of a page."""
    page.goto(address, wait_until="commit")
    drawn = page.evaluate(THERE, curve)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
    return {"first paint, s": (paint or 0) / 1000, "first curves, s": drawn / 1000}


def peer(command: list[str], port: int, curve: str) -> dict[str, float]:
    began = time.perf_counter()
    with running(command) as process:
        wait_for(f"http://127.0.0.1:{port}/")
        found = {"start, s": time.perf_counter() - began}
        with browser() as page:
            found |= opened(page, f"http://127.0.0.1:{port}/", curve)
            return {**found, **used(process.pid), **most_memory(process.pid)}


def tensorboard_command(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder / "tensorboard"), "--port", str(port)]


def trackio_command(folder: Path, port: int) -> list[str]:
    options = f"open_browser=False, server_port={port}, block_thread=True, host='127.0.0.1'"
    at = f"import os; os.environ['TRACKIO_DIR'] = {str(folder / 'trackio')!r}"
    return [sys.executable, "-c", f"{at}; import trackio; trackio.show('bench', {options})"]


def our_command(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "deepcanon", "studio", str(folder / "ours"), "--no-browser", "--port", str(port)]


def tensorboard(folder: Path) -> dict[str, float]:
    port = free_port()
    return peer(tensorboard_command(folder, port), port, "line-chart svg path, line-chart canvas")


def trackio(folder: Path) -> dict[str, float]:
    port = free_port()
    curve = "main canvas, .vega-embed svg, .vega-embed canvas, .plot-container svg"
    return peer(trackio_command(folder, port), port, curve)


def start(folder: Path, rounds: int = 3) -> dict[str, float]:
    """Seconds until each server answers, and the processor time and memory until then, in turns, without a browser."""
    there = {"ours": our_command, "tensorboard": tensorboard_command, "trackio": trackio_command}
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, command in there.items():
            if not (folder / name).is_dir():
                continue
            port, began = free_port(), time.perf_counter()
            with running(command(folder, port)) as process:
                wait_for(f"http://127.0.0.1:{port}/")
                figures = {"start, s": time.perf_counter() - began, **used(process.pid)}
            for figure, value in figures.items():
                found.setdefault(f"{name}: {figure}", []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


@contextmanager
def studio(root: Path, caches: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "deepcanon", "studio", str(root), "--no-browser"]
    with running(command, env={**os.environ, "XDG_CACHE_HOME": str(caches)}) as process:
        assert process.stdout is not None
        yield process, next(line.strip() for line in process.stdout if line.startswith("http"))


def ours(folder: Path) -> dict[str, float]:
    """Cold (sketched), then with all logs read."""
    caches, root = folder / "caches", folder / "ours"
    shutil.rmtree(caches, ignore_errors=True)
    found: dict[str, float] = {}
    began = time.perf_counter()
    with studio(root, caches) as (process, address):
        wait_for(address)
        found["start, s"] = time.perf_counter() - began
        with browser() as page:
            found |= opened(page, address, ".view[data-drawn]")
            found |= {**used(process.pid), **most_memory(process.pid)}
            page.locator('.view[data-sketched="0"]').wait_for(state="attached")
            found["all logs read after, s"] = time.perf_counter() - began
    return found | switch(folder)


def switch(folder: Path) -> dict[str, float]:
    """With all logs read: switching, zoom, and how late a new line is seen."""
    root = folder / "ours"
    found: dict[str, float] = {}
    with studio(root, folder / "caches") as (process, address), browser() as page:
        wait_for(address)
        again = opened(page, address, '.view[data-sketched="0"]')
        found |= {f"{name[:-3]} again, s": value for name, value in again.items()}
        time.sleep(3)
        curve = page.get_by_label("Curve", exact=True)
        names = ("grad_norm", "loss", "lr") * 4
        switched = [_painted_after(page, "change", partial(curve.select_option, name), name) for name in names]
        found["switch to another curve of all runs, median of 12, ms"] = 1000 * statistics.median(switched)
        found["the slowest of them, ms"] = 1000 * max(switched)
        found["curves that were not asked for ahead, median of 5, ms"] = 1000 * statistics.median(
            _not_asked_for_ahead(page, address) for _ in range(5)
        )
        page.locator(".area").focus()
        zoomed = [_painted_after(page, "keydown", lambda: page.keyboard.press("+")) for _ in range(5)]
        found["zoom, median of 5, ms"] = 1000 * statistics.median(zoomed)
        found["memory when all logs are read, MB"] = used(process.pid)["memory, MB"]
        end = {"find": "run-007", "from": 99_990, "to": 100_100}
        page.goto(f"{address.partition('#')[0]}#/runs?{urlencode(end)}")
        page.get_by_role("button", name="numbers").click()
        found["a new line is drawn after, median, s"] = statistics.median(
            _delay(page, root / "run-007") for _ in range(7)
        )
    return found


def server(folder: Path) -> dict[str, float]:
    """Processor milliseconds of a request for all runs, in this process, which imports what the server does."""
    import resource

    from deepcanon.studio.app import application
    from deepcanon.studio.columns import cache_of
    from deepcanon.studio.studio import Studio
    from deepcanon.studio.views.curves import curves
    from deepcanon.studio.views.runs import held, row

    root, caches = folder / "ours", folder / "columns"
    studio = Studio(root, caches=caches)
    application(studio, 0)
    runs, locks = studio.runs(), held()
    found: dict[str, float] = {}

    def timed(name: str, act: Callable[[], Any], rounds: int = 5) -> None:
        spent = []
        for _ in range(rounds):
            began = time.process_time()
            act()
            spent.append(time.process_time() - began)
        found[f"{name}, processor ms, median of {rounds}"] = 1000 * statistics.median(spent)

    timed("the table of all runs", lambda: [row(run, root, locks) for run in runs.values()])
    timed("curves of all runs, sketched", lambda: curves(runs, folder / "nothing", "loss", width=600), rounds=1)
    timed("the same again", lambda: curves(runs, folder / "nothing", "loss", width=600))
    first = {number: root / f"run-{number:03d}" for number in range(DIFFERENT)}
    orders = [{"log": str(run / "log.jsonl"), "cache": str(cache_of(run, caches))} for run in first.values()]
    reader = [sys.executable, "-m", "deepcanon.studio.columns", str(caches)]
    asked = "".join(f"{json.dumps(order)}\n" for order in orders)
    subprocess.run(reader, input=asked, text=True, check=True, stdout=subprocess.DEVNULL)
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["reading one log into columns, by the reader's process, processor ms"] = 1000 * child.ru_utime / DIFFERENT
    found["largest resident memory of that process, MB"] = child.ru_maxrss / 1000
    for run in runs.values():  # the same log, so the same columns
        if not cache_of(run, caches).exists():
            shutil.copytree(cache_of(first[int(run.name[4:]) % DIFFERENT], caches), cache_of(run, caches))
    timed("curves of all runs, all points", lambda: curves(runs, caches, "loss", width=600))
    timed("another curve of all runs", lambda: curves(runs, caches, "grad_norm", width=600))
    timed("a hundredth of all runs", lambda: curves(runs, caches, "loss", low=50_000, high=51_000, width=600))
    timed("what changes, nothing new", lambda: studio.live._look(search=False))
    found["largest resident memory of this process, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    studio.close()
    return found


def _not_asked_for_ahead(page: Any, address: str) -> float:
    """The seconds to other curves in a view that has just been opened: the same ones against seconds, not steps."""
    page.goto(f"{address.partition('#')[0]}#/doctor")
    page.goto(f"{address.partition('#')[0]}#/runs?show=loss")
    page.evaluate(THERE, '.view-runs[data-sketched="0"]')
    time.sleep(2)
    return _painted_after(page, "change", partial(page.get_by_label("Against").select_option, "seconds"))


def _painted_after(page: Any, event: str, act: Callable[[], Any], shows: str | None = None) -> float:
    """The seconds from an event of the user's, as the browser stamps it, to the frame that shows the next picture.

    With ``shows`` the next picture of the curve of this name.
    """
    page.evaluate(WATCH, [event, shows])
    act()
    return float(page.evaluate("painted")) / 1000


def _delay(page: Any, run: Path) -> float:
    """The seconds from a new line of a log to the frame in which the page shows its step as the last one."""
    time.sleep(1.5)
    last = run.joinpath("log.jsonl").read_bytes()[-400:].splitlines()[-1]
    step = json.loads(last)["step"] + 1
    record = {"kind": "step", "step": step, "epoch": 100, "seconds": step / 200, "loss": 0.1, "lr": 0.002}
    with (run / "log.jsonl").open("ab") as log:
        log.write(log_lines([record], 0)[0])
    written = time.time()
    return float(page.evaluate(SHOWN, f"{step:,}")) / 1000 - written


def training(folder: Path, rounds: int = 5) -> dict[str, float]:
    """Wall seconds of a training with a studio that watches it, over those without, in turns."""
    root = folder / "watched"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    ratios = []
    with browser() as page:
        for number in range(rounds):
            alone = _trained(root / f"alone-{number}")
            with studio(root, folder / "caches") as (_, address):
                wait_for(address)
                page.goto(address)
                page.locator(".view").wait_for(state="attached")
                ratios.append(_trained(root / f"watched-{number}") / alone)
            print(f"watched over alone: {ratios[-1]:.3f}", flush=True)
    middle = statistics.median(ratios)
    return {"wall time watched over alone, median": middle, "smallest": min(ratios), "largest": max(ratios)}


def _trained(run: Path) -> float:
    """The wall seconds that the trainer itself counts."""
    command = [sys.executable, "-m", "deepcanon", "train", "mlp", "--data", "digits", "--epochs", "60", "--no-evaluate",
               "--no-pictures", "--out", str(run)]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return float(json.loads((run / "log.jsonl").read_bytes().splitlines()[-1])["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parts = {"ours": ours, "server": server, "tensorboard": tensorboard, "trackio": trackio, "start": start,
             "switch": switch, "training": training}  # fmt: skip
    parser.add_argument("--part", choices=["make", *parts], required=True)
    parser.add_argument("--of", nargs="+", choices=list(makers), default=list(makers))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--points", type=int, default=100_000)
    given = parser.parse_args()
    if given.part == "make":
        make(given.folder, given.runs, given.points, given.of)
        return
    for name, value in parts[given.part](given.folder).items():
        print(f"{given.part:<12}{name:<70}{value:10.3f}")


if __name__ == "__main__":
    main()
