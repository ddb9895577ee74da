"""The tables of the study of settings, from its stored results.

python tests/evidence/settings/tables.py tests/evidence/settings/results.jsonl > tests/evidence/settings/tables.txt
python tests/evidence/settings/tables.py tests/evidence/settings/results.jsonl tests/evidence/settings/second.jsonl
python tests/evidence/settings/tables.py --figures tests/evidence/settings/results.jsonl > assets/schemes/figures.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.run import BASELINE, EXACT, FACTORS, Setting, fraction, half, rows_of, settings

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import crossed_mean
from creditflow.train.text_table import text_table
from creditflow.wrappers import credit

__all__ = [
    "FILTERS",
    "Leads",
    "best_table",
    "figures",
    "leads_of",
    "level_table",
    "map_table",
    "mean_lead",
    "pair_table",
    "pooled_table",
    "tables",
]

Leads = Mapping[
    Setting, Mapping[str, float]
]  # by setting and method: mean success during training minus grpo's, in points
RECOMMENDED: Final = "grouptd"
RIVALS: Final = (
    "graphgpo",
    "g2po",
    "blend",
    "blend_uncentred",
    "stateless",
    "gigpo",
    "grouptd, equal RMS",
    "grouptd, centred",
)


def _has_update(name: str, setting: Setting) -> bool:
    return setting.update == name


FILTERS: Final[Mapping[str, Callable[[Setting], bool]]] = {
    "all": lambda _: True,
    "design": lambda setting: half(setting) == "design",
    "confirmation": lambda setting: half(setting) == "confirmation",
    **{name: partial(_has_update, name) for name in FACTORS["update"]},
}
LEVEL_METHODS: Final = ("stateless", "gigpo", "g2po", "graphgpo", "blend", "grouptd", "oracle_adv")
LEVELS: Final[Mapping[str, Callable[[Setting], bool]]] = {
    "all": lambda _: True,
    "steps of KL .003": lambda setting: setting.update == "KL .003",
    "Adam at .05": lambda setting: setting.update == "Adam .05",
    "grids with pits": lambda setting: setting.tasks == "pits",
    "Sokoban": lambda setting: setting.tasks == "sokoban",
    "key and door": lambda setting: setting.tasks == "key",
    "large grids": lambda setting: setting.tasks == "long",
    "keys merged at random": lambda setting: setting.keys == "merged",
    "keys that hide the player, or whether it has the key": lambda setting: setting.keys == "hidden",
    "keys that never recur": lambda setting: setting.keys == "fresh",
    "graded outcomes": lambda setting: setting.outcome == "graded",
    "5 to 20 % of outcomes wrong": lambda setting: "wrong" in setting.outcome,
    "20 % slips": lambda setting: setting.transitions == "20 % slips",
    "15 turns": lambda setting: setting.turns == "15",
    "60 turns": lambda setting: setting.turns == "60",
    "200 turns": lambda setting: setting.turns == "200",
    "groups of 2": lambda setting: setting.group == "2",
    "groups of 4": lambda setting: setting.group == "4",
    "groups of 16": lambda setting: setting.group == "16",
    "groups of 64": lambda setting: setting.group == "64",
    "4 tasks in an update": lambda setting: setting.batch == "4",
    "32 tasks in an update": lambda setting: setting.batch == "32",
    "additive features": lambda setting: setting.features == "additive",
}
CLOSE: Final = 2.0  # points within which a method counts as level with the best
SHOWN: Final = ("stateless", "gigpo", "graphgpo", "rewardflow", "g2po", "grouptd", "blend", EXACT)


def leads_of(path: Path) -> dict[Setting, dict[str, float]]:
    """The measured settings, averaged over layout seeds; settings without an initial policy are left out."""
    by_name = {str(setting): setting for setting in settings()}
    areas: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows_of(path):  # a job may have several lines, each with other methods
        of_job = areas.setdefault((row["setting"], row["unit"]), {})
        for name, endpoints in row["values"].items():
            of_job[name] = endpoints[0]
    collected: dict[Setting, dict[str, list[float]]] = {}
    for (setting, _), of_job in areas.items():
        for name, area in of_job.items():
            lead = 100.0 * (area - of_job[BASELINE])
            collected.setdefault(by_name[setting], {}).setdefault(name, []).append(lead)
    leads: dict[Setting, dict[str, float]] = {}
    for chosen, of_setting in collected.items():
        leads[chosen] = {name: float(np.mean(values)) for name, values in of_setting.items()}
    return leads


def mean_lead(
    leads: Leads, method: str, other: str = BASELINE, *, chosen: Callable[[Setting], bool] = lambda _: True
) -> Estimate:
    """A method minus another one, mean over conditions; the interval is over conditions, which have tasks of their own."""
    by_condition: dict[tuple[str, str], list[float]] = {}
    for setting, of in leads.items():
        if chosen(setting) and method in of:
            by_condition.setdefault((setting.tasks, setting.condition), []).append(of[method] - of[other])
    means = [np.mean(values) for values in by_condition.values()]
    return Estimate.of(crossed_mean(np.array(means)[:, None]))


def methods_of(leads: Leads) -> list[str]:
    """The methods in all settings, the largest mean lead first."""
    common = set.intersection(*(set(of) for of in leads.values()))
    return sorted(common, key=lambda name: -float(np.mean([of[name] for of in leads.values()])))


def best_of(of: Mapping[str, float]) -> list[str]:
    """The schemes within a point of the best one, the exact advantage left out, the best first."""
    schemes = sorted((name for name in of if name != EXACT), key=lambda name: -of[name])
    return [name for name in schemes if of[name] > of[schemes[0]] - 1.0]


def close(leads: Leads, method: str, chosen: Callable[[Setting], bool]) -> tuple[int, int, float]:
    """In how many settings a method is within ``CLOSE`` points of the best, of how many, and the largest distance."""
    gaps = []
    for setting, of in leads.items():
        if chosen(setting) and method in of:
            gaps.append(max(value for name, value in of.items() if name != EXACT) - of[method])
    return sum(gap <= CLOSE for gap in gaps), len(gaps), max(gaps, default=0.0)


def map_table(leads: Leads) -> list[list[str]]:
    """Setting by setting: the leads of some methods, and the best ones."""
    names = [name for name in SHOWN if all(name in of for of in leads.values())]
    rows = [["tasks", "setting", "update", "half", *names, "within a point of the best"]]
    for setting, of in leads.items():
        cells = [f"{of[name]:+.1f}" for name in names]
        rows.append(
            [setting.tasks, setting.condition, setting.update, half(setting), *cells, ", ".join(best_of(of)[:4])]
        )
    return rows


def pooled_table(leads: Leads) -> list[list[str]]:
    """Method by method: the mean lead over grpo in all settings, by half and by update."""
    parts = FILTERS
    rows = [["method", *parts]]
    for method in methods_of(leads):
        estimates = [mean_lead(leads, method, chosen=chosen) for chosen in parts.values()]
        rows += [[method, *(estimate.text(1, "+") for estimate in estimates)]]
    return rows


def best_table(leads: Leads) -> list[list[str]]:
    """Method by method: in how many settings it is close to the best one."""
    parts = {**FILTERS, "keys recur": lambda setting: setting.keys != "fresh"}
    rows = [["method", *parts, "largest distance"]]
    for method in methods_of(leads):
        if method == EXACT:
            continue
        counts = [close(leads, method, chosen)[:2] for chosen in parts.values()]
        worst = close(leads, method, lambda _: True)[2]
        rows.append([method, *(f"{count} of {total}" for count, total in counts), f"{worst:.1f}"])
    return sorted(rows[:1]) + sorted(rows[1:], key=lambda row: -int(row[1].split()[0]))


def pair_table(leads: Leads) -> list[list[str]]:
    """``grouptd`` minus its rivals, over all settings and by update."""
    rows = [["pair", "all", *FACTORS["update"]]]
    for rival in RIVALS:
        estimates = [mean_lead(leads, RECOMMENDED, rival, chosen=FILTERS[name]) for name in ("all", *FACTORS["update"])]
        rows += [[f"{RECOMMENDED} − {rival}", *(estimate.text(1, "+") for estimate in estimates)]]
    return rows


def level_table(runs: Sequence[Leads]) -> str:
    """Level by level the mean lead over grpo of some methods, as Markdown: the mean over conditions and runs ± half its 95 % interval.

    A condition is one sample: the mean of its updates and runs.
    """
    lines = [f"| settings | conditions | {' | '.join(LEVEL_METHODS)} |", f"|{' --- |' * (2 + len(LEVEL_METHODS))}"]
    for name, chosen in LEVELS.items():
        by_condition: dict[tuple[str, str], list[Mapping[str, float]]] = {}
        for setting, of_setting in (item for leads in runs for item in leads.items() if chosen(item[0])):
            by_condition.setdefault((setting.tasks, setting.condition), []).append(of_setting)
        cells = []
        for method in LEVEL_METHODS:
            means = [np.mean([of_setting[method] for of_setting in of]) for of in by_condition.values()]
            estimate = Estimate.of(crossed_mean(np.array(means)[:, None]))
            cells.append(estimate.short(1, "+") if len(means) > 2 else f"{estimate.mean:+.1f}")
        lines.append(f"| {name} | {len(by_condition)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def sum_of_changes(leads: Leads, setting: Setting, method: str = RECOMMENDED) -> float:
    """The lead that one factor at a time predicts: that of the base setting plus the change of every factor.

    Key and door has one varied factor of its own; the other changes are the means of those of pits and Sokoban.
    """

    def lead(tasks: str, changed: Mapping[str, str]) -> float:
        return leads[replace(Setting(tasks, update=setting.update), **changed)][method]

    total = lead(setting.tasks, {})
    for name, levels in FACTORS.items():
        changed = {name: getattr(setting, name)}
        if name in ("tasks", "update") or changed[name] == levels[0]:
            continue
        own = setting.tasks != "key" or changed == {"keys": "hidden"}
        families = (setting.tasks,) if own else ("pits", "sokoban")
        total += float(np.mean([lead(tasks, changed) - lead(tasks, {}) for tasks in families]))
    return total


def interaction_table(leads: Leads) -> list[list[str]]:
    """The random settings: the lead of ``grouptd`` and what the sum of the one-factor changes predicts."""
    drawn = [setting for setting in fraction() if setting in leads]
    pairs = [(sum_of_changes(leads, setting), leads[setting][RECOMMENDED]) for setting in drawn]
    rows = [["setting", "predicted", "measured"]]
    rows += [[str(s), f"{said:+.1f}", f"{seen:+.1f}"] for s, (said, seen) in zip(drawn, pairs, strict=True)]
    return [*rows, ["correlation", "", f"{np.corrcoef(np.array(pairs).T)[0, 1]:.2f}"]]


def tables(path: Path) -> str:
    """All tables as text."""
    leads = leads_of(path)
    jobs = len({(row["setting"], row["unit"]) for row in rows_of(path)})
    parts: Sequence[tuple[str, list[list[str]]]] = (
        (f"Mean success during training minus grpo's, in points; {jobs} jobs, {len(leads)} settings", map_table(leads)),
        ("Mean over settings [95 % interval over conditions]", pooled_table(leads)),
        (f"{RECOMMENDED} and its rivals [95 % interval over conditions]", pair_table(leads)),
        (f"Settings in which a method is within {CLOSE:g} points of the best one", best_table(leads)),
        (f"Random settings: the lead of {RECOMMENDED} and the sum of the one-factor changes", interaction_table(leads)),
    )
    return "\n\n".join(f"{title}\n\n{text_table(rows)}" for title, rows in parts)


def figures(path: Path) -> str:
    """What ``assets/schemes/figures.json`` contains: the lead of every registered scheme over grpo, in points, as JSON."""
    leads = leads_of(path)
    points = {}
    for method in sorted(methods_of(leads)):
        scheme = method.partition("[")[0]  # mt_ppo[linear] is mt_ppo with a linear critic
        if scheme in credit.names() and scheme != BASELINE:
            estimate = mean_lead(leads, method)
            points[scheme] = [round(bound, 4) for bound in (estimate.mean, estimate.low, estimate.high)]
    command = "python tests/evidence/settings/tables.py --figures tests/evidence/settings/results.jsonl"
    return json.dumps({"command": command, "points": points}, indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1] == "--figures":
        sys.stdout.write(figures(Path(sys.argv[2])))
        sys.exit()
    files = list(map(Path, sys.argv[1:]))
    print(tables(files[0]) if len(files) == 1 else level_table(list(map(leads_of, files))))
