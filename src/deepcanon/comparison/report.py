"""The report of a comparison as one HTML page: tables, charts and pictures are all inside it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from deepcanon.comparison.charts import ladder
from deepcanon.comparison.columns import COVERAGE, NATS, PARAMETERS, PRECISION, SHARPEST, TWO_SAMPLE, Column
from deepcanon.comparison.exhibits import (
    Exhibit,
    confusion_exhibits,
    curve_exhibits,
    sample_exhibits,
    size_exhibits,
)
from deepcanon.comparison.phrases import difference_words
from deepcanon.comparison.record import Comparison
from deepcanon.comparison.repeating import compare_call, compare_command, in_memory, run_commands
from deepcanon.comparison.report_page import FOOT, HEAD
from deepcanon.comparison.sentences import (
    BEHIND,
    in_short,
    remarks,
    title,
)
from deepcanon.comparison.support import Forms
from deepcanon.comparison.tables import Row, Section, failures, sections
from deepcanon.core import Blueprint
from deepcanon.core.files import write_whole
from deepcanon.core.plural import counted

FILE = "report.html"
NOTE = """<p>All numbers are means over the seeds, measured on the test split, which no training uses; small numbers
below are the single seeds. Of every training the weights with the best validation loss were kept (of a lower bound,
with the best bound), or the last ones where the loss is not a measure of fit or has one optimum. A dash means that a
model has no such number. The best value of a column is marked where the test examples tell it from all others: the
interval of the paired difference leaves out 0. The difference is that from the first row in the measure that
ranks them, with the interval of 95 % by the paired bootstrap over the test examples. A model that misses a whole class,
or does not beat the baseline that uses no input, is never marked.
Baselines stand next to the models that were asked for, trained on the same split. Those of scikit-learn are as they
come, but that boosting and neighbors are tuned on the validation split, and that the votes of trees and neighbors are
counted by Laplace's rule, so that no class has probability 0.
Log-likelihoods of binary and of real values are never in one table, since a probability and a density cannot be
compared; but a density of dequantized gray levels is on average no more than the probability of the levels (Theis et
al., 2016), so that bits per dimension of both can. Precision and coverage follow Kynkäänniemi et al. (2019) and Naeem
et al. (2020), the two-sample test Lopez-Paz and Oquab (2017), the calibration error Guo et al. (2017).</p>"""

KEYS = {
    "exact": '<span class="key dot"></span> exact',
    "lower bound": '<span class="key open arrow">→</span> lower bound, the exact value lies to the right',
    "estimate": '<span class="key open"></span> estimate',
}
"""The legend of the chart of log-likelihoods, by their kinds."""


def write_report(
    comparison: Comparison, candidates: Sequence[Blueprint], out: Path, forms: Forms | None = None
) -> Path:
    """Write the page into the folder of the comparison; ``candidates`` are its models, the analytic baselines too."""
    path = out / FILE
    write_whole(path, page(comparison, candidates, out, forms))
    return path


def page(comparison: Comparison, candidates: Sequence[Blueprint], out: Path, forms: Forms | None = None) -> str:
    """The whole page as HTML."""
    asked = comparison["request"]
    forms = forms or Forms(asked["data"], asked["reading"])
    known = {candidate.label: candidate for candidate in candidates}
    tables = sections(comparison)
    parts = [_header(comparison), _short(tables), _chosen(comparison)]
    for section in tables:
        data = forms[section.form]
        parts += [
            f"<section><h2>{_text(title(section))} <small>on {_text(section.data)}</small></h2>",
            _ladder(section),
            _table(section),
            _list(remarks(section), "remarks"),
            _gallery(
                "Samples",
                sample_exhibits(section, data, out, known) if section.question == "densities" else [],
                "" if data.kind == "images" or len(data.train.x[0].flatten()) == 2
                else "Rows are shown in the plane of the first two principal components of the test data. ",
            ),
            _gallery("Confusion", confusion_exhibits(section, data.labels), "Rows are true classes. "),
            _gallery("Learning curve", size_exhibits(section)),
            _gallery("Training curves", curve_exhibits(section, out, known)),
            "</section>",
        ]  # fmt: skip
    parts += [_failures(comparison), _meanings(tables), _commands(comparison, candidates, out)]
    return HEAD.replace("TITLE", _text(f"{asked['data']}: a comparison")) + "\n".join(parts) + FOOT


def tables_of(found: Sequence[Section]) -> str:
    """The tables of a comparison alone, as a notebook displays them."""
    return "".join(f"<p>{_text(title(section))} on {_text(section.data)}</p>{_table(section)}" for section in found)


def _header(comparison: Comparison) -> str:
    data, asked = comparison["data"], comparison["request"]
    counts = ", ".join(f"{data[part]:,} {part}" for part in ("train", "valid", "test") if data[part] is not None)
    shape = "\N{MULTIPLICATION SIGN}".join(map(str, data["shape"]))
    facts = [
        f"{data['kind']}, {shape}", counts,
        counted(asked["seeds"], "seed"),
        *([f"at most {asked['budget']:g} s of training each"] if asked["budget"] is not None else []),
        *([f"{counted(asked['epochs'], 'epoch')} each"] if asked.get("epochs") is not None else []),
        *(f"{name} {value}" for name, value in asked["reading"].items()),
        *([f"cost of a mistake: {_costs(asked['cost'])}"] if asked.get("cost") else []),
        counted(comparison["threads"], "thread"),
        f"deepcanon {comparison['deepcanon']}, torch {comparison['torch']}", comparison["created"][:10],
    ]  # fmt: skip
    chips = "".join(f"<li>{_text(fact)}</li>" for fact in facts)
    return (
        f"<header><h1>Which model fits <em>{_text(Path(asked['data']).name)}</em>?</h1>"
        f'<ul class="facts">{chips}</ul></header>'
    )


def _costs(cost: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in cost.items())


def _short(tables: Sequence[Section]) -> str:
    sentences = in_short(tables)
    return f'<section class="short"><h2>In short</h2>{_list(sentences)}</section>' if sentences else ""


def _chosen(comparison: Comparison) -> str:
    """Why these models were chosen, where none were named."""
    if not comparison["chosen"]:
        return ""
    return f"<section><h2>Why these models</h2>{_list(comparison['chosen'])}</section>"


def _ladder(section: Section) -> str:
    rows = {_said(row): [(value, row.kind or "") for value in row.values(SHARPEST)] for row in section.rows}
    shown = {label: pairs for label, pairs in rows.items() if pairs}
    if section.question != "densities" or len(shown) < 2:  # a dot alone compares nothing
        return ""
    there = {kind for pairs in shown.values() for _, kind in pairs}
    keys = " ".join(key for kind, key in KEYS.items() if kind in there)
    legend = f'<p class="legend">{keys}. One dot for each seed.</p>'
    term = section.rows[0].per
    chart = ladder(shown, f"log-likelihood of a test {term} in nats, higher is better →")
    return f'<figure class="wide">{chart}{legend}</figure>'


def _said(row: Row) -> str:
    """The label of a model in a chart of log-likelihoods, with what it is given."""
    return f"{row.label}, given {row.given}" if row.given else row.label


def _table(section: Section) -> str:
    head = "".join(f"<th>{_text(column.title)}</th>" for column in section.columns)
    apart = any(section.behind(row) is not None for row in section.rows)
    body = "".join(
        f"<tr><th>{_label(row.label)}{'<small>baseline</small>' if row.is_baseline else ''}</th>"
        f"{_behind(section, row) if apart else ''}"
        f"{''.join(_cell(section, row, column) for column in section.columns)}</tr>"
        for row in section.rows
    )
    behind = f"<th>{_text(BEHIND)}</th>" if apart else ""
    return (
        f'<div class="scroll"><table><thead><tr><th>model</th>{behind}{head}</tr></thead>'
        f"<tbody>{body}{_baseline(section, apart)}{_reference(section, apart)}</tbody></table></div>"
    )


def _behind(section: Section, row: Row) -> str:
    """The difference of a row from the first, with its interval."""
    gap = section.behind(row)
    if gap is None:
        return "<td></td>"
    center, interval = difference_words(gap, section.chooser)
    return f"<td>{_text(center)}<small>{_text(interval)}</small></td>"


def _cell(section: Section, row: Row, column: Column) -> str:
    values = row.values(column)
    mean = row.mean(column)
    style = ' class="best"' if section.marked(row, column) else ""
    text = column.write(mean)
    if column is NATS and mean is not None:
        text = f'<span class="kind">{_text(row.likelihood)}</span> {text}'
    if column is PARAMETERS and mean == 0:
        text += f"<small>{row.measured[0]['buffers']:,} in buffers</small>"
    different = len({column.write(value) for value in values}) > 1
    every = f"<small>{' · '.join(column.write(value) for value in values)}</small>" if different else ""
    return f"<td{style}>{text}{every}</td>"


def _baseline(section: Section, apart: bool) -> str:
    """A row with the measures of the baseline that uses no input; ``apart``: where there is a column of differences."""
    found = next((row.baseline for row in section.rows if row.baseline is not None), None)
    if found is None or section.question not in ("classes", "targets"):
        return ""
    cells = "".join(f"<td>{column.write(column.of_baseline(found['test']))}</td>" for column in section.columns)
    cells = f"<td></td>{cells}" if apart else cells
    return f'<tr class="reference"><th>{_text(found["name"])}<small>uses no input</small></th>{cells}</tr>'


def _reference(section: Section, apart: bool) -> str:
    """A row with the measures of training data in place of samples; ``apart``: as above."""
    scores = section.reference
    if section.question != "densities" or scores is None or not any(row.values(TWO_SAMPLE) for row in section.rows):
        return ""
    known = {
        TWO_SAMPLE.title: scores["two_sample"], PRECISION.title: scores["precision"], COVERAGE.title: scores["coverage"]
    }  # fmt: skip
    cells = "".join(f"<td>{column.write(known.get(column.title))}</td>" for column in section.columns)
    cells = f"<td></td>{cells}" if apart else cells
    return f'<tr class="reference"><th>training data<small>in place of samples</small></th>{cells}</tr>'


def _gallery(heading: str, exhibits: Sequence[Exhibit], note: str = "") -> str:
    if not exhibits:
        return ""
    figures = "".join(
        f"<figure>{content}<figcaption>{_text(caption)}</figcaption></figure>" for caption, content in exhibits
    )
    several = heading in ("Learning curve", "Training curves")
    words = "" if several else f'<p class="note">{_text(note)}The first seed is shown.</p>'
    kind = heading.split()[0].lower()
    return f'<h3>{_text(heading)}</h3>{words}<div class="gallery {kind}">{figures}</div>'


def _failures(comparison: Comparison) -> str:
    found = failures(comparison)
    if not found:
        return ""
    rows = "".join(
        f"<tr><th>{_text(label)}</th><td class='sentence'>{_text(' '.join(reasons))}</td></tr>"
        for label, reasons in found.items()
    )
    return f'<section class="failed"><h2>Failures</h2><div class="scroll"><table>{rows}</table></div></section>'


def _meanings(tables: Sequence[Section]) -> str:
    columns = {column.title: column for section in tables for column in section.columns if column.meaning}
    terms = "".join(f"<dt>{_text(name)}</dt><dd>{_text(column.meaning)}</dd>" for name, column in columns.items())
    return f"<section><h2>How to read the numbers</h2>{NOTE}<dl>{terms}</dl></section>"


def _commands(comparison: Comparison, candidates: Sequence[Blueprint], out: Path) -> str:
    if in_memory(comparison):
        return (
            "<section><h2>To repeat it</h2><p>The data were given in Python; with the same data and "
            f"{counted(comparison['threads'], 'thread')}:</p>"
            f"<pre>{_text(compare_call(comparison, str(out)))}</pre></section>"
        )
    entries = [entry for entry in comparison["runs"] if entry["model"] is not None]
    folders = [entry["run"] for entry in entries if entry["measured"] is not None]
    parts = [
        "<section><h2>To repeat it</h2>",
        "<p>All of it:</p>",
        f"<pre>{_text(compare_command(comparison, str(out)))}</pre>",
    ]
    if comparison["request"]["budget"] is None:
        parts += [
            "<p>Each single training:</p>",
            f"<pre>{_text(chr(10).join(run_commands(comparison, candidates)))}</pre>",
        ]
    else:
        parts.append("<p>With a budget, the speed of the machine decides how far each training comes.</p>")
    commands = [f"deepcanon evaluate {out / folder}" for folder in folders]
    parts += ["<p>The measures of each run again:</p>", f"<pre>{_text(chr(10).join(commands))}</pre></section>"]
    return "".join(parts)


def _list(sentences: Sequence[str], style: str = "") -> str:
    if not sentences:
        return ""
    return f'<ul class="{style}">{"".join(f"<li>{_text(sentence)}</li>" for sentence in sentences)}</ul>'


def _label(words: str) -> str:
    """A name that may be broken between its arguments."""
    return _text(words).replace(":", ":<wbr>").replace(",", ",<wbr>").replace("=", "=<wbr>")


def _text(words: str) -> str:
    return html.escape(words)
