"""The sentences of a comparison next to its ranking: on baselines, on the cost of mistakes, on more data."""

from __future__ import annotations

from deepcanon.comparison.columns import COST, Column
from deepcanon.comparison.differences import told_apart, turned
from deepcanon.comparison.phrases import MOST_IN_SHORT, differences_from, interval_words, joined, value_of
from deepcanon.comparison.record import Gain
from deepcanon.comparison.tables import Row, Section


def against_baselines(section: Section) -> list[str]:
    """How the best model and the best baseline compare, where there are both: plainly, also if the baseline wins."""
    column = section.chooser
    ranked = [row for row in section.ranked if row.given is None]
    models, baselines = ([row for row in ranked if row.is_baseline is kind] for kind in (False, True))
    if not models or not baselines:
        return []
    gap = section.difference(baselines[0], models[0], column)
    if gap is None:
        return []
    if not told_apart(gap):
        return [
            f"The test data do not tell the best model, {models[0].label}, from the best baseline, "
            f"{baselines[0].label}: the difference in {column.title} is {interval_words(gap, column)}."
        ]
    wins = (gap["difference"] > 0) == (column.better == "high")
    best, second, group = (baselines[0], models, "model") if wins else (models[0], baselines, "baseline")
    lead = section.difference(best, second[0], column)
    if any(row in section.tied(best, column) for row in second) or lead is None:
        return []
    margin = lead if column.better == "high" else turned(lead)
    by = f"by {interval_words(margin, column)} in {column.title}"
    bound = f" Of {second[0].label} only a lower bound is known." if second[0].kind == "lower bound" else ""
    if len(second) == 1:
        return [f"{best.label} is better than the {group} {second[0].label}, {by}.{bound}"]
    return [
        f"{best.label} is better than every {group} here: the best of them, {second[0].label}, is behind {by}.{bound}"
    ]


def cheapest(section: Section) -> list[str]:
    """Whose decisions cost least, by the costs that were given."""
    rows = [row for row in section.rows if row.mean(COST) is not None]
    if len(rows) < 2:
        return []
    best, *others = sorted(rows, key=lambda row: value_of(row, COST))
    tied = [row for row in section.tied(best, COST) if row in others]
    cost = COST.write(best.mean(COST))
    if len(tied) >= MOST_IN_SHORT:
        return [
            f"By the costs of mistakes, {best.label} is cheapest with a mean cost of {cost}, and cannot be told apart "
            f"from {joined([row.label for row in tied])}, up to {COST.write(max(value_of(row, COST) for row in tied))}."
        ]
    if tied:
        return [
            f"By the costs of mistakes, {best.label} is cheapest with a mean cost of {cost}, and cannot be told apart "
            f"from {joined([row.label for row in tied])}; {differences_from(section, best, tied, COST)}."
        ]
    gap = section.difference(others[0], best, COST)
    apart = "" if gap is None else f"; the difference is {interval_words(gap, COST)}"
    return [
        f"By the costs of mistakes, {best.label} is cheapest with a mean cost of {cost}. Next is {others[0].label} "
        f"with {COST.write(others[0].mean(COST))}{apart}."
    ]


def more_data(section: Section) -> list[str]:
    """Whether more training examples would help, of the first row and of the first that is a model."""
    models = [row for row in section.ranked if not row.is_baseline]
    firsts = {row.label: row for row in (*section.ranked[:1], *models[:1])}
    found = []
    for row in firsts.values():
        of_row = [
            gain
            for gain in section.gains
            if gain["label"] == row.label and gain["difference"]["measure"] == section.chooser.measure
        ]
        if of_row:
            found.append(_gained(row, max(of_row, key=lambda gain: gain["examples"]), section.chooser))
    return found


def _gained(row: Row, gain: Gain, column: Column) -> str:
    """What the last doubling of the training examples has changed."""
    gap = gain["difference"]
    counts = f"with {gain['all']:,} training examples instead of {gain['examples']:,}"
    if not told_apart(gap):
        return (
            f"The {column.title} of {row.label} {counts} changes by {interval_words(gap, column)}, which cannot be "
            "told from 0: this does not show that more data would help."
        )
    better = (gap["difference"] > 0) == (column.better == "high")
    return (
        f"The {column.title} of {row.label} {counts} changes by {interval_words(gap, column)}: "
        f"{'more data would probably help' if better else 'more data have not helped'}."
    )
