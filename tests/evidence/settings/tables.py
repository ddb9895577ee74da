"""Leads over grpo in the settings, from the stored results.

python tests/evidence/settings/tables.py tests/evidence/settings/results.jsonl tests/evidence/settings/second.jsonl
python tests/evidence/settings/tables.py --leaderboard tests/evidence/settings/results.jsonl tests/evidence/settings/second.jsonl
python tests/evidence/settings/tables.py --figures tests/evidence/settings/results.jsonl > assets/schemes/figures.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.run import BASELINE, EXACT, FACTORS, Setting, half, rows_of, settings

from creditflow.train.bench.report.tidy import Estimate
from creditflow.train.statistics import crossed_mean
from creditflow.wrappers import credit

__all__ = ["FILTERS", "Leads", "close", "figures", "leaderboard", "leads_of", "level_table", "mean_lead"]

Leads = Mapping[
    Setting, Mapping[str, float]
]  # by setting and method: mean success during training minus grpo's, in points


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


def close(leads: Leads, method: str, chosen: Callable[[Setting], bool]) -> tuple[int, int, float]:
    """In how many settings a method is within ``CLOSE`` points of the best, of how many, and the largest distance."""
    gaps = []
    for setting, of in leads.items():
        if chosen(setting) and method in of:
            gaps.append(max(value for name, value in of.items() if name != EXACT) - of[method])
    return sum(gap <= CLOSE for gap in gaps), len(gaps), max(gaps, default=0.0)


def unbroken(text: str) -> str:
    """Numbers with minus signs, and without a line break before their intervals."""
    return text.replace("-", "−").replace(" ± ", "\u00a0±\u00a0")


RANKED: Final[Mapping[str, str]] = {
    "oracle_adv": "perfect credit",
    **{name: f"`{name}`" for name in ("grouptd", "blend", "graphgpo", "rewardflow", "g2po", "gigpo", "mt_ppo[linear]", "grpo", "hgpo")},
    "stateless": "plain discounted return (`stateless`)",
}  # fmt: skip
COLUMNS: Final = {
    "all settings": "all",
    "steps of equal KL divergence": "steps of KL .003",
    "Adam": "Adam at .05",
    "groups of 4": "groups of 4",
    "keys merge states": "keys merged at random",
    "states never repeat": "keys that never recur",
    "wrong outcomes": "5 to 20 % of outcomes wrong",
}


def over_runs(runs: Sequence[Leads], method: str, level: str) -> tuple[Estimate, int]:
    """A method's lead over grpo in the settings of a level, mean over conditions and runs, and the number of conditions.

    A condition is one sample: the mean of its updates and runs.
    """
    by_condition: dict[tuple[str, str], list[float]] = {}
    for setting, of in (item for leads in runs for item in leads.items() if LEVELS[level](item[0])):
        by_condition.setdefault((setting.tasks, setting.condition), []).append(of[method])
    means = [np.mean(values) for values in by_condition.values()]
    return Estimate.of(crossed_mean(np.array(means)[:, None])), len(means)


def leaderboard(runs: Sequence[Leads]) -> str:
    """Method by method the mean lead over grpo, and how often the method is close to the best, as Markdown."""
    lines = [f"| method | {' | '.join(COLUMNS)} | close to the best |", f"|{' --- |' * (2 + len(COLUMNS))}"]
    for method in sorted(RANKED, key=lambda name: -over_runs(runs, name, "all")[0].mean):
        cells = [over_runs(runs, method, level)[0].short(1, "+") for level in COLUMNS.values()]
        near = [close(leads, method, FILTERS["all"])[:2] for leads in runs]
        share = "–" if method == EXACT else f"{100 * sum(a for a, _ in near) / sum(b for _, b in near):.0f}%"
        cells = ["0" if method == BASELINE else unbroken(cell) for cell in cells]
        lines.append(f"| {RANKED[method]} | {' | '.join([*cells, share])} |")
    return "\n".join(lines) + "\n"


def level_table(runs: Sequence[Leads]) -> str:
    """Level by level the mean lead over grpo of some methods, as Markdown: the mean over conditions and runs ± half its 95 % interval."""
    lines = [f"| settings | conditions | {' | '.join(LEVEL_METHODS)} |", f"|{' --- |' * (2 + len(LEVEL_METHODS))}"]
    for level in LEVELS:
        estimates = [over_runs(runs, method, level) for method in LEVEL_METHODS]
        count = estimates[0][1]
        cells = [estimate.short(1, "+") if count > 2 else f"{estimate.mean:+.1f}" for estimate, _ in estimates]
        lines.append(f"| {level} | {count} | {unbroken(' | '.join(cells))} |")
    return "\n".join(lines) + "\n"


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
    elif sys.argv[1] == "--leaderboard":
        sys.stdout.write(leaderboard([leads_of(Path(name)) for name in sys.argv[2:]]))
    else:
        sys.stdout.write(level_table([leads_of(Path(name)) for name in sys.argv[1:]]))
