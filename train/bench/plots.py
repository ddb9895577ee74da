"""Plots of a benchmark as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from creditflow.envs.errors import MissingExtraError
from creditflow.train.bench.run import BASELINE, SuiteResult

__all__ = ["COLOURS", "plot_learning"]

# Okabe and Ito's palette: distinguishable with any colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", "-.", (0, (1, 1)))  # curves that coincide stay visible


def plot_learning(result: SuiteResult, path: Path) -> None:
    """Learning curves, and each area against the baseline's with its interval.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "bench") from error
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    names: Sequence[str] = [row.score.scheme for row in result.rows]
    for i, row in enumerate(result.rows):
        colour = COLOURS[i % len(COLOURS)]
        left.plot(row.curve, label=row.score.scheme, color=colour, linewidth=1.8, linestyle=DASHES[i % len(DASHES)])
        gain = row.gain
        right.errorbar(
            gain.mean,
            i,
            xerr=[[gain.mean - gain.low], [gain.high - gain.mean]],
            fmt="o",
            color=colour,
            capsize=4,
        )
    right.axvline(0.0, color="#888888", linewidth=1.0)
    left.axhline(result.expert_success, color="#888888", linestyle=":", linewidth=1.2, label="expert")
    left.set(
        xlabel="policy update (equal KL)", ylabel="success on the learned tasks", ylim=(0, 1.03), title=result.name
    )
    left.legend(frameon=False, fontsize=9)
    right.set(
        xlabel=f"area under the curve minus {BASELINE}'s, 95 % interval", yticks=range(len(names)), yticklabels=names
    )
    right.invert_yaxis()
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    temporary = path.with_name(path.name + ".tmp")
    figure.savefig(temporary, format="png", dpi=130)
    temporary.replace(path)
