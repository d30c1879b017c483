"""The results of a comparison in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from deepcanon.comparison.asides import against_baselines, cheapest, more_data
from deepcanon.comparison.columns import (
    ACCURACY,
    BALANCED,
    BITS,
    COPIES,
    COVERED,
    ERROR,
    R2,
    SHARPEST,
    TWO_SAMPLE,
)
from deepcanon.comparison.phrases import MOST_IN_SHORT, differences_from, interval_words, joined, range_words, value_of
from deepcanon.comparison.quality import FEWEST
from deepcanon.comparison.tables import Row, Section
from deepcanon.core.plural import counted

MEMORIZED = 0.25
"""The share of near-copies from which on a report warns of memorization."""

TITLES = {
    "binary": "Models of binary data",
    "spins": "Models of spins",
    "levels": "Models of gray levels",
    "dequantized": "Densities of dequantized gray levels",
    "plain": "Densities and samplers",
}


def title(section: Section) -> str:
    """The heading of a table."""
    if section.question == "classes":
        return "Classifiers"
    if section.question == "targets":
        return "Regression"
    if section.question == "forecasts":
        return "Forecasts"
    terms = {row.per for row in section.rows}
    if section.question == "densities" and terms == {"frame"}:
        return "Models of videos"
    if section.question == "densities" and terms <= {"token", "step"}:
        return "Models of sequences" if terms == {"token"} else "Models of time series"
    return "Other models" if section.question == "others" else TITLES[section.form]


def conclusions(section: Section) -> list[str]:
    """The result of a table, in a sentence or two."""
    if section.question == "others":
        return []
    if section.question == "densities":
        found = [*_likeliest(section), *against_baselines(section), *_best_samples(section), *_memorized(section)]
        return [*found, *more_data(section)]
    return [
        _verdict(section),
        *_unranked(section),
        *against_baselines(section),
        *cheapest(section),
        *(sentence for row in section.rows for sentence in section.failings(row)),
        *more_data(section),
    ]


def in_short(tables: Sequence[Section]) -> list[str]:
    """What a report begins with: the results of all tables, what goes across them, which trainings were cut short."""
    return [*(sentence for section in tables for sentence in conclusions(section)), *across(tables), *cut_short(tables)]


def across(tables: Sequence[Section]) -> list[str]:
    """How the best model of gray levels and the best density of dequantized ones compare, in the unit that both have.

    The density of a level with uniform noise is on average at most the probability of the level (Theis et al., 2016).
    """
    best: dict[str, Row] = {}
    for section in (each for each in tables if each.question == "densities"):
        for row in section.ranked:
            if row.given is None and row.mean(BITS) is not None:
                best.setdefault(section.form, row)
    if "levels" not in best or "dequantized" not in best:
        return []
    levels, density = best["levels"], best["dequantized"]
    about = "about" if density.kind == "estimate" else "at most"
    return [
        "Models of gray levels and densities of dequantized ones are comparable in bits per dimension: for the gray "
        f"levels {levels.label} needs {BITS.write(levels.mean(BITS))}, and {density.label} {about} "
        f"{BITS.write(density.mean(BITS))}."
    ]


def cut_short(tables: Sequence[Section]) -> list[str]:
    """The models whose training the budget has ended, without which a ranking could be taken for final."""
    stopped = list(dict.fromkeys(row.label for section in tables for row in section.rows if row.stopped()))
    if not stopped:
        return []
    return [
        f"{joined(stopped)} {'were' if len(stopped) > 1 else 'was'} stopped by the budget before the training ended."
    ]


def remarks(section: Section) -> list[str]:
    """Remarks on a table: kinds of likelihood, budgets, seeds that failed."""
    found: list[str] = []
    ranked = [row for row in section.rows if row.mean(SHARPEST) is not None]
    if section.question == "densities":
        drawn = [each["drawn"] for row in section.rows for each in row.measured if each["drawn"] is not None]
        if any(each["quality"] is None for each in drawn):
            found.append(f"Samples are not measured: that takes rows of numbers, and at least {FEWEST} test examples.")
        if any(len({row.kind for row in ranked if row.given == given}) > 1 for given in {row.given for row in ranked}):
            found.append("These log-likelihoods are not all of one kind, so the ranking is not certain:")
        found += _other_questions(ranked)
        for row in ranked:
            if row.kind == "lower bound":
                found.append(f"{row.label} gives a lower bound: its log-likelihood, and its rank, may be higher.")
            if row.kind == "estimate":
                found.append(f"{row.label} gives an estimate: its log-likelihood, and its rank, may be lower.")
    for row in section.rows:
        if not row.in_catalogue and any(each["weights"] for each in row.measured):
            choices = dict.fromkeys(each["weights"] for each in row.measured)
            found.append(f"{row.label} has {' and '.join(choices)}, chosen on validation data.")
        stopped = row.stopped()
        if stopped:
            found.append(f"{row.label} was stopped by the budget: {', '.join(stopped)}.")
        failed = len(row.entries) - len(row.measured)
        if failed:
            found.append(
                f"{row.label} failed with {failed} of {counted(len(row.entries), 'seed')}: {' '.join(row.errors)}"
            )
    return found


BEHIND = "difference"
"""The heading of the column of differences from the first row, in the measure that ranks them."""


def _verdict(section: Section) -> str:
    """Which of the models that predict or forecast is best, or that the test examples do not tell."""
    first, *others = section.ranked
    column = section.chooser
    where = f"on the test data of {section.data}"
    if all(section.no_better(row) for row in section.rows) and first.baseline is not None:
        return f"No model beats {first.baseline['name']} {where}."
    if not others:
        return f"{first.label} has {_reached(section, [first])} {where}."
    tied = [row for row in section.tied(first, column) if not section.no_better(row)]
    if tied:
        alike = [first, *tied]
        names = joined([row.label for row in alike])
        if len(alike) > MOST_IN_SHORT:
            return f"{names} cannot be told apart {where}: {range_words(alike, column)}."
        apart = differences_from(section, first, tied, column)
        return f"{names} cannot be told apart {where}: {_reached(section, alike)}; {apart}."
    gap = section.difference(others[0], first, column)
    apart = "" if gap is None else f"; the difference is {interval_words(gap, column)}"
    most = "lowest" if column.better == "low" else "highest"
    return (
        f"{first.label} has the {most} {column.title} {where}: {_reached(section, [first])}. "
        f"Next is {others[0].label} with {_reached(section, others[:1])}{apart}."
    )


def _unranked(section: Section) -> list[str]:
    """What can be said of classifiers without probabilities, which the log loss does not rank."""
    best = section.ranked[0]
    found = []
    for row in (row for row in section.rows if row not in section.ranked):
        gap = section.difference(row, best, BALANCED)
        apart = "" if gap is None else f"; the difference is {interval_words(gap, BALANCED)}"
        found.append(
            f"{row.label} gives no probabilities, so it has no {section.chooser.title} and no rank: its "
            f"{BALANCED.title} is {BALANCED.write(row.mean(BALANCED))}, that of {best.label} "
            f"{BALANCED.write(best.mean(BALANCED))}{apart}."
        )
    return found


def _reached(section: Section, rows: Sequence[Row]) -> str:
    """The measures of some rows in words: the one that ranks them, then what is easier to imagine."""
    column = section.chooser
    ranked = f"{column.title} {joined([column.write(row.mean(column)) for row in rows])}"
    if section.question == "targets":
        names = [each["targets"]["target"] for row in rows for each in row.measured if each["targets"] is not None]
        unit = f" in the units of {names[0]!r}" if names and names[0] else ""
        return f"{ranked}{unit}, {R2.title} {joined([R2.write(row.mean(R2)) for row in rows])}"
    if section.question == "forecasts":
        held = joined([COVERED.write(row.mean(COVERED)) for row in rows])
        return f"{ranked}, and {held} of the values are in the 80 % interval"
    return f"{ranked}, {joined([_right(row) for row in rows])} right"


def _right(row: Row) -> str:
    """How many of the test examples are answered rightly; of several seeds the share."""
    accuracy = row.mean(ACCURACY) or 0.0
    counts = [sum(scores["examples"] for scores in each["classes"]) for each in row.measured]
    return f"{accuracy * counts[0]:.0f} of {counts[0]:,}" if len(counts) == 1 else f"{accuracy:.2%}"


def _likeliest(section: Section) -> list[str]:
    ranked = [row for row in section.rows if row.mean(SHARPEST) is not None]
    groups = [[row for row in ranked if row.given == given] for given in dict.fromkeys(row.given for row in ranked)]
    return [_highest(section, group) for group in groups]


def _highest(section: Section, ranked: Sequence[Row]) -> str:
    """Which of the models that are given the same has the highest log-likelihood."""
    first = ranked[0]
    bits = f", {BITS.write(first.mean(BITS))} bits per dimension" if first.mean(BITS) is not None else ""
    drawn = first.mean(ERROR)
    error = f" ± {ERROR.write(drawn)} by draws" if drawn is not None else ""
    which = "the highest log-likelihood" if len(ranked) > 1 else "this log-likelihood"
    others = [row.label for row in ranked[1:] if row.kind == "lower bound"]
    tied = [row for row in section.tied(first, SHARPEST) if row.likelihood == first.likelihood]
    if len(tied) >= MOST_IN_SHORT:
        alike = [first, *tied]
        return (
            f"{joined([row.label for row in alike])} cannot be told apart by the log-likelihood of the test data of "
            f"{section.data}: {range_words(alike, SHARPEST)} ({first.likelihood})."
        )
    if tied:
        alike = [first, *tied]
        values = joined([SHARPEST.write(row.mean(SHARPEST)) for row in alike])
        return (
            f"{joined([row.label for row in alike])} cannot be told apart by the log-likelihood of the test data of "
            f"{section.data}: {values} nats ({first.likelihood}); {differences_from(section, first, tied, SHARPEST)}."
        )
    sentence = (
        f"{first.label} gives the test data of {section.data} {which}: "
        f"{SHARPEST.write(first.mean(SHARPEST))} nats{error} ({first.likelihood}){bits}."
    )
    if first.kind == "estimate":
        sentence += " It is an estimate, which may be too high."
    elif others:
        sentence += f" Of {joined(others)} only a lower bound is known."
    return sentence


def _other_questions(ranked: Sequence[Row]) -> list[str]:
    """A word on log-likelihoods that answer different questions, since one is given what another is not."""
    named: dict[str | None, list[str]] = {}
    for row in ranked:
        named.setdefault(row.given, []).append(row.label)
    plain = named.pop(None, [])
    return [
        f"The log-likelihood of {joined(labels)} is given {given}, that of {joined(plain)} is not: they answer "
        "different questions, and each has an order of its own."
        for given, labels in named.items()
        if plain
    ]


def _best_samples(section: Section) -> list[str]:
    drawing = [row for row in section.rows if row.mean(TWO_SAMPLE) is not None]
    if not drawing:
        return []
    best = min(drawing, key=lambda row: TWO_SAMPLE.distance(value_of(row, TWO_SAMPLE)))
    right = value_of(best, TWO_SAMPLE)
    if len(drawing) == 1:
        return [
            f"A random forest tells samples of {best.label} from {section.data} in {right:.1%} of cases, and 50% would "
            "be random guessing."
        ]
    if right > 0.99:
        names = joined([row.label for row in drawing])
        return [f"The samples of {names} can all be told from data: a random forest is right in over 99% of cases."]
    return [
        f"{best.label} has the samples that are hardest to tell from data: a random forest is right in {right:.1%} of "
        "cases, and 50% would be random guessing."
    ]


def _memorized(section: Section) -> list[str]:
    return [
        f"{row.label} seems to have memorized training data: {value_of(row, COPIES):.0%} of its samples are "
        "near-copies, where 5 % is usual."
        for row in section.rows
        if row.mean(COPIES) is not None and value_of(row, COPIES) > MEMORIZED
    ]
