"""The study as pictures: bias against variance of every scheme, and learning curves by kind of task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.errors import MissingExtraError
from creditflow.train.bench.plots import COLOURS, DASHES

__all__ = ["plot_bias_variance", "plot_curves"]

CellRow = Mapping[str, Any]
SHOWN = ("grpo", "gigpo", "graphgpo", "rewardflow_raw", "evaluation", "grouptd", "oracle_adv", "oracle_progress")
LEARNED = ("grpo", "gigpo", "graphgpo", "rewardflow_raw", "grouptd", "grouptd_det", "oracle_adv", "oracle_progress")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "bench") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> None:
    temporary = path.with_name(path.name + ".tmp")
    figure.savefig(temporary, format="png", dpi=130)
    temporary.replace(path)


def plot_bias_variance(study: Mapping[str, Any], path: Path) -> None:
    """One line a scheme, one point a group size: squared bias (mean) against variance (median), aliased cells apart.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    cells: Sequence[CellRow] = [c for c in study["cells"] if c["offline"]]
    sides = {
        "keys that tell states apart": [c for c in cells if c["kind"] != "alias"],
        "aliased text keys": [c for c in cells if c["kind"] == "alias"],
    }
    sides = {title: chosen for title, chosen in sides.items() if chosen}
    figure = _figure(5.2 * len(sides), 4.4)
    for axes, (title, chosen) in zip(figure.subplots(1, len(sides), squeeze=False)[0], sides.items(), strict=True):
        sizes = sorted({c["size"] for c in chosen})
        for i, name in enumerate(SHOWN):
            points = []
            for size in sizes:
                rows = [c["offline"][name] for c in chosen if c["size"] == size]
                spread = [row["variance"] for row in rows if row["variance"] is not None]
                points.append((float(np.mean([row["bias2"] for row in rows])), float(np.median(spread))))
            bias, variance = zip(*points, strict=True)
            axes.plot(bias, variance, marker=MARKERS[i], color=COLOURS[i], linestyle=DASHES[i % 4], label=name)
        axes.set(xlabel="squared bias of the direction", ylabel="relative variance", yscale="log", title=title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def plot_curves(study: Mapping[str, Any], path: Path) -> None:
    """Mean exact success against the share of the turn budget, one panel for each kind of task.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    cells: Sequence[CellRow] = [c for c in study["cells"] if c["curves"]]
    kinds = list(dict.fromkeys(c["kind"] for c in cells))
    figure = _figure(3.6 * len(kinds), 3.6)
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0], kinds, strict=True):
        for i, name in enumerate(n for n in LEARNED if n in cells[0]["curves"]):
            mean = np.mean([c["curves"][name]["points"] for c in cells if c["kind"] == kind], axis=0)
            axes.plot(
                np.linspace(0, 1, len(mean)), mean, color=COLOURS[i], linestyle=DASHES[i % 4], label=name, linewidth=1.6
            )
        axes.set(xlabel="share of the turn budget", title=kind)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    axes.set_ylim(None, 1.02)
    axes.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("exact success")
    _save(figure, path)
