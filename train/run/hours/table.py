"""The table of GPU hours that a dry run prints, and the text of a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from creditflow.envs.errors import CreditflowError
from creditflow.envs.tasks import Task
from creditflow.train.run.hours.prompts import Prompts, measured_prompts, rough_tokens
from creditflow.train.run.hours.work import GPUS, HIGH, LOW, Hours, Panels, episode_of, hours_of
from creditflow.train.run.memory.sizes import ModelSizes
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.text_table import text_table

__all__ = ["hours_table", "range_text"]


def hours_table(
    sizes: ModelSizes,
    settings: TrainConfig,
    tasks: Sequence[Task],
    panels: Panels,
    count: Callable[[str], int] = rough_tokens,
) -> str:
    """GPU hours by part of the run and kind of GPU, and what they were computed from.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        tasks: its tasks, of which the expert plays a few.
        panels: number of evaluated tasks.
        count: number of tokens of a text.
    """
    try:
        prompts = measured_prompts(settings, tasks, count)
    except CreditflowError as error:  # an environment without an oracle has no expert; the run itself needs none
        return f"no estimate of GPU hours, for which the environment's expert plays a few episodes: {error}"
    least = {name: hours_of(sizes, settings, prompts, gpu, LOW, panels) for name, gpu in GPUS.items()}
    most = {name: hours_of(sizes, settings, prompts, gpu, HIGH, panels) for name, gpu in GPUS.items()}

    def cells(part: str) -> list[str]:
        return [range_text(getattr(least[name], part), getattr(most[name], part)) for name in GPUS]

    rows = [["GPU hours, estimated", *GPUS], *([part, *cells(part)] for part in (*Hours._fields, "total"))]
    return f"{text_table(rows, len(rows) - 2)}\n{_assumed(prompts, settings)}"


def _assumed(prompts: Prompts, settings: TrainConfig) -> str:
    low, high = (episode_of(prompts, settings, pace) for pace in (LOW, HIGH))
    turns, completion = (
        range_text(*pair)
        for pair in ((low.turns, high.turns), (low.completions / low.turns, high.completions / high.turns))
    )
    return (
        f"unverified: counted with episodes of {turns} turns and completions of {completion} tokens (the expert's prompts have about "
        f"{prompts.first:.0f}, later turns add {prompts.later:.0f}); assumed: {HIGH.arithmetic:.0%} to {LOW.arithmetic:.0%} of the peak FLOP/s, "
        f"{HIGH.bandwidth:.0%} to {LOW.bandwidth:.0%} of the memory's speed and {1000 * LOW.launch_of(settings):.2g} to {1000 * HIGH.launch_of(settings):.2g} ms a layer while sampling; without the environments' own time"
    )


def range_text(low: float, high: float) -> str:
    """Two numbers with two significant digits, but no more than two decimal places.

    >>> range_text(3.14159, 1234.5), range_text(0.0, 0.004), range_text(0.042, 5.0)
    ('3.1 to 1,200', '0', '0.04 to 5')
    """
    shown = [_rounded(x) for x in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _rounded(x: float) -> str:
    digits = 2 if x < 0.1 else 1 - math.floor(math.log10(x))
    shown = f"{round(x, digits):,.{max(0, min(2, digits))}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
