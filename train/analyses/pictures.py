"""Figures of the analyses: one look, PNG files, matplotlib imported only when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_path
from creditflow.train.bench.report.plots import COLOURS

__all__ = ["COLOURS", "figure", "save", "tidy"]


def figure(width: float, height: float) -> Any:
    """An empty figure of this size, in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "bench") from error
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def tidy(axes: Any) -> None:
    """Axes without a frame, on a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def save(picture: Any, path: Path) -> Path:
    """Write the figure; the file appears when it is whole."""
    with atomic_path(path) as temporary:
        picture.savefig(temporary, format="png", dpi=130)
    return path
