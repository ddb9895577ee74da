"""The scores of a judge as plain tables, one per environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from creditflow.train.credit_set.scoring import METRICS
from creditflow.train.text_table import text_table

__all__ = ["scores_text"]

HEADINGS: Final = ("concordance", "AUROC", "AUROC centred", "Spearman", "Brier", "ECE", "Brier recal.", "ECE recal.")
WITH_INTERVAL: Final = METRICS[:4]


def scores_text(document: Mapping[str, Any]) -> str:
    """Format the document of ``score_document`` as text: one table per environment, and their mean."""
    parts = []
    for env in next(iter(document["rows"].values())):
        rows = [
            [method, *(_cell(of_env[env][name], name in WITH_INTERVAL) for name in METRICS)]
            for method, of_env in document["rows"].items()
        ]
        parts.append(f"{_title(env, document)}\n{text_table([['scores of', *HEADINGS], *rows], rule_before=1)}")
    threshold = document["threshold"]
    parts.append(
        "concordance: pairs of actions in one state ranked as Q ranks them, weighted by the difference of Q where it is\n"
        f"beyond noise; AUROC: turns with A > {threshold:g} against A < -{threshold:g}, both beyond noise (centred: minus the "
        "mean score of\nthe state's actions); Spearman: with A; Brier, ECE: scores as probabilities of success, recal.: after "
        "cross-fitted\nisotonic regression. In brackets 95 % intervals over tasks."
    )
    return "\n\n".join(parts)


def _title(env: str, document: Mapping[str, Any]) -> str:
    if env == "mean":
        return "mean over environments"
    facts = document["envs"][env]
    noise = "" if facts["reliability"] is None else f", split-half reliability of forked A {facts['reliability']:.2f}"
    return (
        f"{env}: {facts['turns']} turns of {facts['tasks']} tasks, {facts['exact']} exact; {facts['good']} good, {facts['bad']} bad "
        f"turns; {facts['pairs']} pairs{noise}; least possible Brier score {facts['least_brier']:.3f}"
    )


def _cell(value: list[float] | None, interval: bool) -> str:
    if value is None:
        return "-"
    mean, low, high = value
    return f"{mean:.3f} [{low:.2f}, {high:.2f}]" if interval else f"{mean:.3f}"
