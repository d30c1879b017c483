"""The doctor's page: one self-contained HTML file with the verdict, the evidence in pictures, and all checks."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from deepcanon.comparison.report_page import FOOT, HEAD
from deepcanon.diagnosis.health_report import Diagnosis, Report

WIDTH, HEIGHT, LEFT, BOTTOM = 640.0, 240.0, 64.0, 34.0
"""The size of a chart, and the room for the labels of its axes."""


def page(report: Report) -> str:
    """The page of a report."""
    title = f"The doctor on {report.subject}"
    parts = [HEAD.replace("TITLE", _text(title)), f"<h1>{_text(title)} <em>({_text(report.data)})</em></h1>"]
    parts.append(_verdict(report))
    parts += [_section(found) for found in report]
    for name, found in (("Suspicions", report.suspicions), ("Notes", report.notes)):
        if found:
            listed = "".join(f"<li>{_text(str(each))}</li>" for each in found)
            parts.append(f"<section><h2>{name}</h2><ul>{listed}</ul></section>")
    parts.append(_folded("Checks that passed", ["check", "numbers"], _passed(report)))
    parts.append(_folded("Checks that were not made", ["check", "reason"], list(report.skipped.items())))
    return "\n".join([*parts, FOOT])


def _verdict(report: Report) -> str:
    said = [str(each) for each in report] or [str(report)]
    listed = "".join(f"<li>{_text(sentence)}</li>" for sentence in said)
    kind = "short" if report.healthy else "failed"
    return f'<section class="{kind}"><h2>{"Healthy" if report.healthy else "Ill"}</h2><ul>{listed}</ul></section>'


def _section(found: Diagnosis) -> str:
    numbers = {name: value for name, value in found.evidence.items() if isinstance(value, int | float | str)}
    facts = {"where": found.where, **{key: value for key, value in numbers.items() if key != "figure"},
             "what to do": found.advice, "confirmed by": found.confirmed_by}  # fmt: skip
    if found.margin is not None:
        facts["beyond the threshold by a factor of"] = found.margin
    if found.explains:
        facts["explains"] = "; ".join(found.explains)
    listed = "".join(
        f"<dt>{_text(key.replace('_', ' '))}</dt><dd>{_text(_short(value))}</dd>"
        for key, value in facts.items()
        if value
    )
    again = f"<pre>deepcanon doctor --explain {_text(found.check)}</pre>"
    return f"<section><h2>{_text(found.cause)}</h2><dl>{listed}</dl>{_pictures(found.evidence)}{again}</section>"


def _pictures(evidence: Mapping[str, Any]) -> str:
    drawn = []
    if isinstance(evidence.get("curves"), Mapping):
        drawn.append(_figure(curves_chart(evidence["curves"]), "The loss, step by step."))
    if isinstance(evidence.get("range"), Mapping):
        tested = evidence["range"]
        points = [(math.log10(rate), loss) for rate, loss in zip(tested["rates"], tested["losses"], strict=False)
                  if loss is not None and rate > 0]  # fmt: skip
        words = "Range test: the loss against the learning rate (power of ten), which rises at every step."
        drawn.append(_figure(lines_chart({"loss": points}), words))
    if isinstance(evidence.get("bars"), Mapping):
        drawn.append(_figure(bars_chart(evidence["bars"]), "By layer or class, on a logarithmic scale if far apart."))
    listed = [name for name in ("pairs", "rows_listed") if evidence.get(name)]
    drawn += [f"<p class='note'>{name.replace('_', ' ')}: {_text(str(evidence[name]))}</p>" for name in listed]
    return "".join(drawn)


def _figure(svg: str, words: str) -> str:
    return f'<figure class="wide">{svg}<figcaption>{_text(words)}</figcaption></figure>' if svg else ""


def curves_chart(curves: Mapping[str, Sequence[float]]) -> str:
    """Curves by name against their number, as SVG."""
    return lines_chart({name: list(enumerate(values)) for name, values in curves.items()})


def lines_chart(lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines by name, as SVG; on a logarithmic axis where all values are positive and far apart."""
    values = [y for points in lines.values() for _, y in points if _is_finite(y)]
    if len(values) < 2:
        return ""
    power = min(values) > 0 and max(values) > 50 * min(values)
    low, high = min(values), max(values)
    bottom, top = (math.log10(low), math.log10(high)) if power else (low, high)
    across = [x for points in lines.values() for x, _ in points]
    start, end = min(across), max(across)

    def place(x: float, y: float) -> str:
        up = (math.log10(y) if power else y) - bottom
        return (f"{LEFT + (WIDTH - LEFT - 8) * (x - start) / ((end - start) or 1):.1f},"
                f"{(HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 22) * up / ((top - bottom) or 1):.1f}")  # fmt: skip

    parts = [_frame(f"{low:.3g}", f"{high:.3g}", f"{start:.3g}", f"{end:.3g}")]
    for hue, (name, points) in enumerate(lines.items()):
        drawn = " ".join(place(x, y) for x, y in points if _is_finite(y))
        parts.append(f'<polyline class="named hue{hue % 8}" style="fill:none" points="{drawn}"/>')
        parts.append(
            f'<text class="hue{hue % 8}" style="stroke:none" x="{LEFT + 8 + 220 * hue}" y="13">{_text(name)}</text>'
        )
    return _svg(parts)


def bars_chart(bars: Mapping[str, float]) -> str:
    """Bars by name, as SVG; on a logarithmic scale where they are positive and far apart."""
    values = [float(value) for value in bars.values() if _is_finite(value)]
    if not values:
        return ""
    positive = [value for value in values if value > 0]
    power = len(positive) == len(values) and max(values) > 50 * min(values)
    low = math.log10(min(positive)) - 0.3 if power else min(0.0, *values)
    high = math.log10(max(values)) if power else max(0.0, *values)
    wide = (WIDTH - LEFT - 8) / len(bars)
    parts = [_frame(f"{min(values):.3g}", f"{max(values):.3g}", next(iter(bars)), list(bars)[-1])]
    for number, value in enumerate(bars.values()):
        if _is_finite(value):
            share = ((math.log10(value) if power else value) - low) / ((high - low) or 1)
            tall = (HEIGHT - BOTTOM - 22) * max(share, 0.0)
            parts.append(f'<rect class="hue0" x="{LEFT + number * wide + 1:.1f}" width="{max(wide - 2, 1):.1f}" '
                         f'y="{HEIGHT - BOTTOM - tall:.1f}" height="{tall:.1f}"/>')  # fmt: skip
    return _svg(parts)


def _frame(low: str, high: str, start: str, end: str) -> str:
    base = HEIGHT - BOTTOM
    labels = [(LEFT - 6, base, "end", low), (LEFT - 6, 30.0, "end", high), (LEFT, HEIGHT - 14, "start", start),
              (WIDTH - 8, HEIGHT - 14, "end", end)]  # fmt: skip
    words = "".join(
        f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{_text(str(text)[:28])}</text>'
        for x, y, anchor, text in labels
    )
    return f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{base}" y2="{base}"/>{words}'


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img">{"".join(parts)}</svg>'


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _passed(report: Report) -> list[tuple[str, str]]:
    return [
        (name, ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in numbers.items()))
        for name, numbers in report.passed.items()
    ]


def _folded(title: str, head: Sequence[str], rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return ""
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(f'<tr><th>{_text(name)}</th><td class="sentence">{_text(words)}</td></tr>' for name, words in rows)
    table = f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    return f"<section><details><summary>{_text(title)} ({len(rows)})</summary>{table}</details></section>"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(words: str) -> str:
    return html.escape(words)
