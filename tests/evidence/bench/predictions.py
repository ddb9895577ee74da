"""Evaluation of the preregistered predictions in ``predictions.json`` on the cells of a full run.

Every rule returns whether the prediction came true and what was observed; a prediction whose cells were not run is neither
true nor false.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from creditflow.train.bench.exact.tasks import SOKOBAN_KINDS
from creditflow.train.bench.report.sanity import MAX_STANDARD_ERRORS, exceptions
from creditflow.train.bench.report.tidy import correlations
from creditflow.train.statistics import ClusteredMean, crossed_mean

__all__ = ["Outcome", "check_predictions", "load_predictions"]

PUBLISHED = ("grpo", "rloo", "gigpo", "graphgpo", "graphgpo_paper", "rewardflow")
CellRow = Mapping[str, Any]
Cells = Sequence[CellRow]


class Outcome(NamedTuple):
    """Whether a prediction came true (None: its cells were not run), and the observed values."""

    hit: bool | None
    observed: str


@dataclass(frozen=True, slots=True)
class _Study:
    grid: Cells
    sokoban: Cells

    def where(self, *kinds: str, size: int | None = None) -> list[CellRow]:
        rows = [*self.grid, *self.sokoban]
        return [c for c in rows if c["kind"] in kinds and c["offline"] and size in (None, c["size"])]

    def plain(self, size: int | None = None) -> list[CellRow]:
        return self.where("open", "pits", "slip", size=size)


def load_predictions() -> dict[str, Any]:
    """The predictions as written before the run."""
    stated: dict[str, Any] = json.loads(Path(__file__).with_name("predictions.json").read_text(encoding="utf-8"))
    return stated


def check_predictions(cells: Cells) -> list[dict[str, Any]]:
    """Each prediction with its outcome."""
    cells = [_as_predicted(cell) for cell in cells]
    study = _Study(
        [c for c in cells if c["kind"] not in SOKOBAN_KINDS], [c for c in cells if c["kind"] in SOKOBAN_KINDS]
    )
    checked = []
    for prediction in load_predictions()["predictions"]:
        needed = study.sokoban if prediction["about"] == "sokoban" else study.grid
        outcome = RULES[prediction["id"]](study) if needed else Outcome(None, "not run")
        if "nan" in outcome.observed:  # some of its cells were not run
            outcome = Outcome(None, "not run")
        checked.append({**prediction, "hit": outcome.hit, "observed": outcome.observed})
    return checked


def _as_predicted(cell: CellRow) -> CellRow:
    """The cell with the methods of the predictions: none that read annotations, and ``grouptd`` with its defaults of then."""
    tables = ("offline", "curves")
    return {**cell, **{table: _methods_as_predicted(cell[table]) for table in tables}}


def _methods_as_predicted(rows: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row for name, row in rows.items() if "[" not in name}
    if "grouptd_base" in kept:
        kept["grouptd"] = kept.pop("grouptd_base")
    return kept


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def _gain(cells: Cells, method: str) -> float:
    return _mean([c["offline"][method]["gain"] for c in cells])


def _value(cells: Cells, method: str, metric: str) -> list[float]:
    return [c["offline"][method][metric] for c in cells if c["offline"][method][metric] is not None]


def _count_cells(
    cells: Cells, a: str, b: str, table: str = "offline", values: str = "gain_by_task"
) -> tuple[int, int, int]:
    """Number of cells in which a is better than b, in which it is worse, and of all cells.

    Better and worse are by more than ``MAX_STANDARD_ERRORS`` standard errors of the paired difference.
    """
    leads = [_lead(c[table][a][values], c[table][b][values]) for c in cells if c[table]]
    better = sum(lead.mean > MAX_STANDARD_ERRORS * lead.standard_error for lead in leads)
    worse = sum(lead.mean < -MAX_STANDARD_ERRORS * lead.standard_error for lead in leads)
    return better, worse, len(leads)


def _lead(a: Sequence[float], b: Sequence[float]) -> ClusteredMean:
    """Mean of a − b over tasks."""
    return crossed_mean([np.subtract(a, b)])


def _area(cells: Cells, a: str, b: str) -> float:
    """Mean difference in area over cells."""
    leads = [_lead(c["curves"][a]["area_by_task"], c["curves"][b]["area_by_task"]) for c in cells if c["curves"]]
    return _mean([lead.mean for lead in leads])


def _beats_published(s: _Study) -> Outcome:
    gains = {name: _gain(s.grid, name) for name in ("grouptd", *PUBLISHED)}
    shown = ", ".join(f"{name} {gain:.3f}" for name, gain in gains.items())
    return Outcome(all(gains["grouptd"] > gains[name] for name in PUBLISHED), shown)


def _wins(other: str, min_better: int, max_worse: int) -> Callable[[_Study], Outcome]:
    def rule(s: _Study) -> Outcome:
        better, worse, cells = _count_cells(s.grid, "grouptd", other)
        return Outcome(
            better >= min_better * cells / 48 and worse <= max_worse, f"better {better}, worse {worse} of {cells}"
        )

    return rule


def _lead_by_size(s: _Study, a: str, b: str) -> tuple[float, float, str]:
    """Gain of a minus that of b, without aliasing, at group sizes 4 and 64; and a text that states both."""
    small, large = (_gain(s.plain(g), a) - _gain(s.plain(g), b) for g in (4, 64))
    return small, large, f"{a} − {b}: G 4 {small:+.3f}, G 64 {large:+.3f}"


def _graph_at_small_groups(s: _Study) -> Outcome:
    small, large, observed = _lead_by_size(s, "graphgpo", "gigpo")
    return Outcome(small > 0.0 > large, observed)


def _no_deviation(s: _Study) -> Outcome:
    lift = _gain(s.grid, "rewardflow_raw") - _gain(s.grid, "rewardflow")
    return Outcome(lift >= 0.03, f"{lift:+.3f}")


def _bias(s: _Study) -> Outcome:
    cos = {n: _mean(_value(s.plain(64), n, "cos_mean")) for n in ("grouptd", "graphgpo", "rewardflow_raw")}
    hit = cos["grouptd"] >= 0.97 and max(cos["graphgpo"], cos["rewardflow_raw"]) <= 0.92
    return Outcome(hit, ", ".join(f"{name} {value:.3f}" for name, value in cos.items()))


def _variance(s: _Study) -> Outcome:
    grouptd, grpo = (_median(_value(s.plain(8), n, "variance")) for n in ("grouptd", "grpo"))
    return Outcome(grouptd < grpo / 3.0, f"grouptd {grouptd:.2f}, grpo {grpo:.2f}")


def _prior(s: _Study) -> Outcome:
    small, large, observed = _lead_by_size(s, "grouptd", "evaluation")
    return Outcome(small > 0.05 and large < 0.03, observed)


def _oracle_best(s: _Study) -> Outcome:
    beaten = exceptions(s.grid)
    return Outcome(not beaten, "; ".join(beaten) or f"best in {len(s.grid)} cells")


def _alias_curves(s: _Study) -> Outcome:
    cells = s.where("alias")
    lead, area = _gain(cells, "grouptd") - _gain(cells, "gigpo"), _area(cells, "grouptd", "gigpo")
    return Outcome(lead > 0.0 >= area, f"gain {lead:+.3f}, area {area:+.4f}")


def _never_below_gigpo(s: _Study) -> Outcome:
    counts = {n: _count_cells(s.grid, n, "gigpo", "curves", "area_by_task") for n in ("grouptd_8", "grouptd_outcome")}
    shown = ", ".join(f"{name}: better {b}, worse {w} of {n}" for name, (b, w, n) in counts.items())
    return Outcome(all(worse == 0 for _, worse, _ in counts.values()), shown)


def _conflict_rule(s: _Study) -> Outcome:
    over = {name: _area(s.where("alias"), "grouptd_det", name) for name in ("gigpo", "grouptd")}
    return Outcome(min(over.values()) > 0.0, ", ".join(f"over {n} {d:+.4f}" for n, d in over.items()))


def _conflicts_under_slip(s: _Study) -> Outcome:
    cost = _gain(s.where("slip", size=64), "grouptd_det") - _gain(s.where("slip", size=64), "grouptd")
    return Outcome(cost < 0.0, f"{cost:+.3f}")


def _fidelity(s: _Study) -> Outcome:
    found = correlations(s.grid)
    gain, progress = found["gain"]["plain"], found["concordance_optimal"]["plain"]
    if gain is None or progress is None:
        return Outcome(None, "no curves")
    return Outcome(gain >= 0.7 and gain > progress, f"gain {gain:.2f}, M4 against Q* {progress:.2f}")


def _curves_over_gigpo(s: _Study) -> Outcome:
    over = {
        f"{kind} G {size}": _area(s.where(kind, size=size), "grouptd", "gigpo")
        for kind in ("open", "pits", "slip")
        for size in sorted({c["size"] for c in s.grid})
    }
    return Outcome(min(over.values()) > 0.0, ", ".join(f"{name} {d:+.4f}" for name, d in over.items()))


def _unknown_horizon(s: _Study) -> Outcome:
    cells = [c for c in s.grid if c["size"] >= 8]
    cost = _gain(cells, "grouptd_free") - _gain(cells, "grouptd")
    return Outcome(abs(cost) <= 0.02, f"{cost:+.4f}")


def _natural(s: _Study) -> Outcome:
    more = float(np.mean([c["natural_gain"] for c in s.grid]))
    return Outcome(more >= 1.05, f"{more:.3f}")


def _progress_in_pits(s: _Study) -> Outcome:
    lead = _gain(s.where("pits", size=64), "oracle_progress") - _gain(s.where("pits", size=64), "grpo")
    return Outcome(lead < 0.0, f"{lead:+.3f}")


def _sokoban_gain(s: _Study) -> Outcome:
    parts, hit = [], True
    for kind in SOKOBAN_KINDS:
        leads = [
            _gain(s.where(kind), "grouptd") - _gain(s.where(kind), n) for n in ("gigpo", "graphgpo", "rewardflow_raw")
        ]
        hit = hit and min(leads) > 0.0
        parts.append(f"{kind} {leads[0]:+.3f} {leads[1]:+.3f} {leads[2]:+.3f}")
    return Outcome(hit, "over gigpo, graphgpo, rewardflow_raw: " + ", ".join(parts))


def _sokoban_dead(s: _Study) -> Outcome:
    few, many = (
        _gain(s.where(k), "grouptd") - _gain(s.where(k), "rewardflow_raw") for k in ("sokoban-few", "sokoban-many")
    )
    return Outcome(many > few, f"few {few:+.3f}, many {many:+.3f}")


def _sokoban_curves(s: _Study) -> Outcome:
    over = {f"{k} {n}": _area(s.where(k), "grouptd", n) for k in SOKOBAN_KINDS for n in ("gigpo", "graphgpo")}
    return Outcome(min(over.values()) > 0.0, ", ".join(f"{name} {d:+.4f}" for name, d in over.items()))


RULES: Mapping[str, Callable[[_Study], Outcome]] = {
    "P01": _beats_published,
    "P02": _wins("grpo", 45, 0),
    "P03": _wins("gigpo", 40, 0),
    "P04": _wins("rewardflow_raw", 24, 3),
    "P05": _graph_at_small_groups,
    "P06": _no_deviation,
    "P07": _bias,
    "P08": _variance,
    "P09": _prior,
    "P10": _oracle_best,
    "P11": _alias_curves,
    "P12": _never_below_gigpo,
    "P13": _conflict_rule,
    "P14": _conflicts_under_slip,
    "P15": _fidelity,
    "P16": _curves_over_gigpo,
    "P17": _unknown_horizon,
    "P18": _natural,
    "P19": _progress_in_pits,
    "P20": _sokoban_gain,
    "P21": _sokoban_dead,
    "P22": _sokoban_curves,
}
