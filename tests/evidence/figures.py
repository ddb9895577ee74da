"""The figures of the studies from their stored results: ``python tests/evidence/figures.py`` draws the picture of every study.

A figure is a mean with its 95 % interval, in percentage points. A page quotes only figures that are computed here (``test_figures.py``).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from evidence.language_models.endpoints import endpoint
from evidence.pictures import MARKS, Shown, draw
from evidence.settings.design import design_of, pairs_of
from evidence.settings.tables import FILTERS, leads_of, mean_lead
from evidence.webshop_split import run as webshop

from creditflow.train.bench.document import read_results
from creditflow.train.bench.report.tidy import Estimate
from creditflow.train.statistics import ClusteredMean, contrasts_of, crossed_mean, stratified_mean

__all__ = ["DRAWN", "STUDIES", "Panel", "draw_study", "figures", "picture", "shown"]

FOLDER: Final = Path(__file__).resolve().parent
Panel = tuple[str, Mapping[str, Estimate]]  # title, and by label a figure

GRAPHS: Final = ("grouptd", "graphgpo", "rewardflow", "gigpo")
CONTROL: Final = "stateless"
DRAWN_METHODS: Final = (
    "grouptd",
    "blend",
    "graphgpo",
    "rewardflow",
    "gigpo",
    "g2po",
)  # the first of them that a study has
EXACT: Final = "oracle_adv"
TABULAR: Final = ("sokoban", "alfworld", "webshop", "wikisearch")
SIGNALS: Final = (
    "grouptd", "graphgpo", "rewardflow", "gigpo", CONTROL, "grpo",
    "judge.noisy_oracle", "judge.model", "log-probability", "entropy", "ratio",
)  # fmt: skip
DRAWN_SIGNALS: Final = ("graphgpo", "grouptd", "gigpo", "grpo", "judge.noisy_oracle")
RUNS: Final = {"first": "first run", "second": "second run, other tasks"}


def settings() -> Iterable[Panel]:
    """Leads over grpo in 96 settings, and what grouptd leads its rivals by."""
    methods = (EXACT, "grouptd", "blend", "graphgpo", "rewardflow", "g2po", CONTROL, "gigpo", "mt_ppo[linear]")
    for file, run in (("results", "first run"), ("second", "second run, other tasks")):
        leads = leads_of(FOLDER / "settings" / f"{file}.jsonl")
        yield run, {f"{name} − grpo": mean_lead(leads, name) for name in methods}
        for update in ("KL .003", "Adam .05"):
            chosen = FILTERS[update]
            yield (
                f"{run}, {update}",
                {f"grouptd − {name}": mean_lead(leads, "grouptd", name, chosen=chosen) for name in ("graphgpo", EXACT)},
            )


def protocol() -> Iterable[Panel]:
    """Leads over grpo, and of grouptd over graphgpo, by optimiser."""
    for file, run in RUNS.items():
        (suite,) = read_results(FOLDER / "settings" / f"protocol_{file}.json.gz")["suites"]
        design = design_of(suite)
        assert design is not None
        pairs = {(pair.better, pair.worse): pair for pair in pairs_of(design, list(design.methods))}
        wanted = [*((name, "grpo") for name in (EXACT, *GRAPHS, CONTROL)), ("grouptd", "graphgpo")]
        yield run, {f"{a} − {b}": pairs[a, b].difference.times(100) for a, b in wanted}
        for optimiser in pairs["grouptd", "grpo"].levels["optimiser"]:
            figures_of = {f"{a} − {b}": pairs[a, b].levels["optimiser"][optimiser].times(100) for a, b in wanted}
            yield f"{run}, {optimiser}", figures_of


def language_models() -> Iterable[Panel]:
    """Held-out success, both families and both runs as strata of equal weight."""
    documents = [read_results(FOLDER / "language_models" / name) for name in ("lm.json.gz", "second.json.gz")]
    families = [family for document in documents for family in document["language_models"]["families"].values()]

    def difference(method: str, other: str, when: Literal["area", "final"] = "area") -> Estimate:
        of_families = [endpoint(f, method, when) - endpoint(f, other, when) for f in families]
        return Estimate.of(stratified_mean([crossed_mean(values) for values in of_families])).times(100)

    methods = (EXACT, "grouptd", "blend", CONTROL, "rewardflow", "graphgpo", "g2po", "gigpo", "rloo")
    yield "during training", {f"{name} − grpo": difference(name, "grpo") for name in methods}
    rivals = ("grouptd", "blend", EXACT)
    yield "against the control", {f"{name} − {CONTROL}": difference(name, CONTROL) for name in rivals}
    yield ("against grouptd", {f"{name} − grouptd": difference(name, "grouptd") for name in ("graphgpo", EXACT)})
    yield (
        "at the end",
        {
            "more imitation − grouptd": difference("more imitation", "grouptd", "final"),
            "grpo − best temperature": difference("grpo", "best temperature", "final"),
        },
    )


def ladder() -> Iterable[Panel]:
    """Leads of language models by size, and by what a turn of the smallest one is."""
    rows = [json.loads(line) for line in (FOLDER / "ladder" / "results.jsonl").read_text("utf-8").splitlines()]
    areas = defaultdict[tuple[str, str, str, str], dict[int, float]](dict)  # setting, size, family, method
    for row in rows:
        size, family, seed, method = row["job"]
        if "rate" not in row:
            of_cell = areas[row.get("setting", "standard"), size, family, method]
            of_cell[seed] = 100.0 * float(np.mean(row["held_out"][1:]))
    families, large = ("pits", "sokoban"), ("6", "20", "60")
    sizes = list(dict.fromkeys(row["job"][0] for row in rows))

    def lead(method: str, other: str, setting: str, of_sizes: Sequence[str], *, whole: bool = False) -> Estimate:
        """Over seeds; a seed's number is the mean over the cells at which it ran, with ``whole`` only if it ran at all."""
        by_seed = defaultdict[int, list[float]](list)
        for size, family in product(of_sizes, families):
            first, second = (areas[setting, size, family, name] for name in (method, other))
            for seed in first.keys() & second.keys():
                by_seed[seed].append(first[seed] - second[seed])
        cells = len(of_sizes) * len(families) if whole else 0
        means = [np.mean(leads) for _, leads in sorted(by_seed.items()) if len(leads) >= cells]
        return Estimate.of(crossed_mean(np.array(means)[:, None]))

    methods = ("grouptd", "blend", "g2po", "graphgpo", "gigpo", CONTROL, EXACT)
    for title, of_sizes in (("all sizes", sizes), ("from 7.4 M on", large)):
        yield title, {f"{name} − grpo": lead(name, "grpo", "standard", of_sizes) for name in methods}
        rivals = [name for name in methods if name != CONTROL]
        yield (
            f"{title}, against the control",
            {f"{name} − {CONTROL}": lead(name, CONTROL, "standard", of_sizes) for name in rivals},
        )
    for form in ("plan", "letters", "history"):
        yield form, {f"{name} − grpo": lead(name, "grpo", form, ["0.1"], whole=True) for name in methods}


def families() -> Iterable[Panel]:
    """Leads in ALFWorld, WebShop and WikiSearch by optimiser."""
    document = read_results(FOLDER / "families" / "results.json.gz")
    methods = ("grouptd", "blend", "rewardflow", "graphgpo", "g2po", "gigpo", CONTROL, "shuffled(grouptd)")
    for suite in document["suites"]:
        area = {
            name: 100.0 * np.array(row["area_by_seed"]) for name, row in suite["rows"].items() if "area_by_seed" in row
        }
        yield (
            suite["name"] if "Adam" in suite["name"] else f"{suite['name']}, KL .01",
            {f"{name} − grpo": Estimate.of(crossed_mean(area[name] - area["grpo"])) for name in methods},
        )


def webshop_split() -> Iterable[Panel]:
    """The success that the leak adds, by shop and policy."""
    rows = [
        row
        for row in webshop.rows_of(FOLDER / "webshop_split" / "results.jsonl")
        if row["job"].get("shop") in webshop.SHOPS
    ]
    for title, of_row in webshop.COLUMNS.items():
        for shop in webshop.SHOPS:
            by_policy = defaultdict[str, list[float]](list)
            for row in (row for row in rows if row["job"]["shop"] == shop):
                by_policy[row["job"]["policy"]].append(100.0 * of_row(row))
            values = {name: np.array(points)[:, None] for name, points in by_policy.items()}
            yield f"{title}, {shop} shop", {name: Estimate.of(crossed_mean(points)) for name, points in values.items()}


def replay() -> Iterable[Panel]:
    """Rank correlations with the replayed advantage, in hundredths: by log with Holm's intervals over the signals, and over the tabular logs."""
    rows = {
        row["log"]: row
        for row in map(json.loads, (FOLDER / "replay" / "results.jsonl").read_text("utf-8").splitlines())
    }

    def of(log: str, signal: str, number: str = "rank") -> ClusteredMean:
        return ClusteredMean(*rows[log]["signals"][signal][number])

    for log, row in rows.items():
        contrasts = contrasts_of({name: of(log, name) for name in SIGNALS if name in row["signals"]})
        yield log, {name: Estimate(c.difference.mean, *c.interval).times(100) for name, c in contrasts.items()}
    logs = [log for log in TABULAR if log in rows]
    names = [name for name in SIGNALS if all(name in rows[log]["signals"] for log in logs)]
    yield "tabular", {name: Estimate.of(stratified_mean([of(log, name) for log in logs])).times(100) for name in names}
    yield f"grouptd − {CONTROL}", {log: Estimate.of(of(log, "grouptd", "lead")).times(100) for log in rows}


STUDIES: Final[Mapping[str, Callable[[], Iterable[Panel]]]] = {
    function.__name__: function
    for function in (settings, protocol, language_models, ladder, families, webshop_split, replay)
}
# the panels that are drawn; the others are only quoted
DRAWN: Final[Mapping[str, tuple[str, ...]]] = {
    "settings": ("first run", "second run, other tasks"),
    "protocol": ("first run, KL steps", "first run, Adam 0.03", "first run, Adam 0.1"),
    "language_models": ("during training",),
    "ladder": ("all sizes", "from 7.4 M on", "plan"),
    "families": ("alfworld, KL .01", "webshop, KL .01", "wikisearch, KL .01"),
    "webshop_split": ("added by the leak, embedded shop", "added by the leak, thousand shop"),
    "replay": TABULAR,
}


@cache
def figures(study: str) -> dict[str, Mapping[str, Estimate]]:
    """By panel and label the figures of a study."""
    return dict(STUDIES[study]())


def picture(study: str) -> Path:
    """The picture of a study, beside its page; one page has both the settings and the protocol that crosses some of them."""
    return FOLDER / "settings" / "protocol.png" if study == "protocol" else FOLDER / study / "results.png"


def draw_study(study: str, path: Path) -> None:
    """Draw the panels of a study side by side."""
    panels = [shown(title, figures(study)[title]) for title in DRAWN[study]]
    base = next(iter(figures(study)[DRAWN[study][0]])).partition(" − ")[2]
    label = f"points of success more than {base}" if base else "points of success"
    label = "rank correlation, hundredths" if study == "replay" else label
    draw(panels, path, label, control="plain discounted return", perfect="perfect credit")


def shown(title: str, panel: Mapping[str, Estimate]) -> Shown:
    """What is drawn of a panel: of leads those over its first base, of the methods that the pages are about."""
    base = next(iter(panel)).partition(" − ")[2]
    leads = {label.removesuffix(f" − {base}"): estimate for label, estimate in panel.items() if label.endswith(base)}
    drawn: Sequence[str] = DRAWN_METHODS if base else DRAWN_SIGNALS
    names = [name for name in drawn if name in leads][:MARKS] or list(leads)
    perfect = leads[EXACT].mean if EXACT in leads else None
    return Shown(title, {name: leads[name] for name in names}, leads.get(CONTROL), perfect)


if __name__ == "__main__":
    for study_name in sys.argv[1:] or STUDIES:
        draw_study(study_name, picture(study_name))
