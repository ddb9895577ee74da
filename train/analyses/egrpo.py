"""Analysis of E-GRPO: do correct rollouts name more of the question's entities than incorrect ones?

The match rate of a rollout is the fraction of the question's entities that its thoughts name (eq. 2), divided by the best
of its group (eq. 3). The paper's figure 1 shows histograms of the normalised rate (bottom) and the number of questions in
which correct rollouts name more entities than incorrect ones (top), here with an exact sign test. Its figure 5 is the same
for whole trajectories, with queries, results and answers.

  python -m creditflow.train.analyses.egrpo LOG.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.analyses import finding
from creditflow.train.analyses.entities import Episode, episodes, with_entities
from creditflow.train.analyses.finding import Finding, NotDefined, Table, decimals, percent, run_analysis
from creditflow.train.arguments.programs import run_program
from creditflow.wrappers.graphs.entity_reading import EntityReader
from creditflow.wrappers.records.group import Group

__all__ = ["BINS", "SCOPES", "SOURCE", "add_arguments", "analyse", "bins", "run"]

SOURCE: Final = "entity match rates, E-GRPO eqs. 1 to 3, figures 1 and 5"
SCOPES: Final = ("thoughts", "trajectory")
BINS: Final = ("0", "(0, ¼]", "(¼, ½]", "(½, ¾]", "(¾, 1)", "1")
_EQUAL: Final = 1e-12  # rates are ratios of small integers


def bins(rates: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 (6,): how many rates lie in each of ``BINS``; exactly 0 and exactly 1 have bins of their own."""
    inner = np.clip(np.ceil(4.0 * rates - _EQUAL), 1, 4)
    where = np.where(rates <= _EQUAL, 0, np.where(rates >= 1.0 - _EQUAL, 5, inner)).astype(np.int64)
    return np.bincount(where, minlength=len(BINS))


def _rates(reader: EntityReader, found: Sequence[Episode]) -> dict[str, NDArray[np.float64]]:
    """float64 (rollouts,) per scope: the match rate of each rollout, in [0, 1]."""
    thought_rates, whole_rates = [], []
    for turns, _, _ in found:
        thoughts = {v for turn in turns for v in reader.matcher.found(reader.thought(turn))}
        in_actions = {v for turn in turns for v in reader.matcher.found(turn.action)}
        retrieved = {v for step in reader.shown(turns) for v in step}
        thought_rates.append(len(thoughts) / max(reader.countable, 1))
        whole_rates.append(len(thoughts | in_actions | retrieved) / max(reader.countable, 1))
    return {"thoughts": np.array(thought_rates), "trajectory": np.array(whole_rates)}


def _normalised(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    best = rates.max()
    return rates / best if best > 0.0 else rates


def _scope(per_group: Sequence[NDArray[np.float64]], correct: Sequence[NDArray[np.bool_]]) -> dict[str, Any]:
    """Histograms, means and the sign test of one scope."""
    from scipy.stats import binomtest

    rate = np.concatenate(per_group)
    normalised = np.concatenate([_normalised(rates) for rates in per_group])
    is_correct = np.concatenate(correct)
    gaps = np.array(
        [r[c].mean() - r[~c].mean() for r, c in zip(per_group, correct, strict=True) if c.any() and not c.all()]
    )
    more, less = int((gaps > _EQUAL).sum()), int((gaps < -_EQUAL).sum())
    sides = {}
    for name, mask in (("correct", is_correct), ("incorrect", ~is_correct)):
        n = int(mask.sum())
        sides[name] = {
            "rollouts": n,
            "rate": float(rate[mask].mean()) if n else float("nan"),
            "normalised": float(normalised[mask].mean()) if n else float("nan"),
            "histogram": dict(zip(BINS, bins(normalised[mask]).tolist(), strict=True)),
        }
    return {
        **sides,
        "questions": len(gaps),
        "correct_higher": more,
        "incorrect_higher": less,
        "equal": len(gaps) - more - less,
        "sign_test_p": float(binomtest(more, more + less).pvalue) if more + less else float("nan"),
    }


def analyse(groups: Sequence[Group], *, match: Any = "exact_substring") -> Finding:
    """Match rates in thoughts and in whole trajectories.

    Args:
        groups: groups of the log.
        match: rule by which a text names an entity: "exact_substring" (paper: the full name only) or "normalized" (words,
            aliases too).

    Raises:
        NotDefined: no question has entities, or no text names any.
    """
    chosen = with_entities(groups, answer=False)
    correct, rates = [], {scope: list[NDArray[np.float64]]() for scope in SCOPES}
    thinks = False
    for group, graph in chosen:
        reader = EntityReader(graph, rule=match, aliases=match == "normalized")
        played = episodes(group)
        thinks = thinks or any(reader.thought(turn).strip() for turns, _, _ in played for turn in turns)
        for scope, values in _rates(reader, played).items():
            rates[scope].append(values)
        correct.append(np.array([episode.correct for episode in played], np.bool_))
    if not any(values.any() for values in rates["trajectory"]):
        raise NotDefined("no text of the log mentions an entity of its question; were texts recorded in the log?")
    scopes = [scope for scope in SCOPES if scope == "trajectory" or thinks]
    numbers: dict[str, Any] = {"groups": len(chosen), "groups_left_out": len(groups) - len(chosen), "match": match}
    numbers |= {scope: _scope(rates[scope], correct) for scope in scopes}
    notes = [_comparison(scope, numbers[scope]) for scope in scopes]
    if not thinks:
        notes.append("the log contains no thoughts, which the paper matches: only whole trajectories can be compared")
    if numbers["groups_left_out"]:
        notes.append(f"left out: {numbers['groups_left_out']} groups whose question has no entities")
    return Finding("egrpo", SOURCE, numbers, [_table(numbers, scopes)], notes)


def _comparison(scope: str, found: dict[str, Any]) -> str:
    if not found["questions"]:
        return f"{scope}: no question has both correct and incorrect rollouts to compare"
    return (
        f"{scope}: correct rollouts name more entities in {found['correct_higher']} of {found['questions']} questions, fewer in "
        f"{found['incorrect_higher']}, equally many in {found['equal']}; sign test p = {found['sign_test_p']:.2g} (paper: more "
        "in 1939, fewer in 487)"
    )


def _table(numbers: dict[str, Any], scopes: Sequence[str]) -> Table:
    rows = [["in", "rollouts", "", "rate", "normalised", *BINS]]
    for scope in scopes:
        for side in ("correct", "incorrect"):
            row = numbers[scope][side]
            total = row["rollouts"]
            fractions = [percent(n / total if total else float("nan"), 0) for n in row["histogram"].values()]
            rows.append([scope, side, str(total), decimals(row["rate"]), decimals(row["normalised"]), *fractions])
    return Table("Match rate, and the distribution of the rate normalised by the group's best", rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    finding.add_arguments(parser)
    parser.add_argument(
        "--match", choices=["normalized", "exact_substring"], default="exact_substring",
        help="when a text mentions an entity: by normalised words, or by the exact phrase (default %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the analysis of a log."""
    return run_analysis(analyse, args, match=args.match)


if __name__ == "__main__":
    sys.exit(run_program("creditflow.train.analyses.egrpo"))
