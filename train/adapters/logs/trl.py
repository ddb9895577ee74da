"""TRL's table of completions: ``log_completions=True`` writes completions/completions_STEP.parquet, and W&B's table beside it.

A row has ``step``, ``prompt`` and ``completion`` (texts, or lists of messages), one column for each reward function, columns that
reward functions log, and ``advantage``. Which columns are rewards, and their weights, is not in the file: by default
all columns of numbers count, with weight 1 (``reward="a,b*0.5"`` names them). A rollout without any reward is left out, as TRL's
own baseline does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings
from creditflow.train.adapters.logs.messages import observed, text_turns, turns_of
from creditflow.train.adapters.logs.rows import MISSING, Row, RowError, Rows, Tally, at_path, each_row, number

__all__ = ["trl_episodes"]

_OTHER: Final = ("step", "prompt", "completion", "advantage", "image", "images")


def trl_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a table."""
    weights = _weights(settings.reward)
    return each_row(rows, tally, lambda where, row: _episode(where, row, weights, settings, tally))


def _weights(reward: str) -> dict[str, float]:
    """Weights by column; {}: all columns of numbers.

    >>> _weights("accuracy,format*0.5")
    {'accuracy': 1.0, 'format': 0.5}
    """
    weights = dict[str, float]()
    for entry in filter(None, reward.split(",")):
        name, star, factor = entry.rpartition("*")
        try:
            weights[name if star else entry] = float(factor) if star else 1.0
        except ValueError:
            raise ConfigError(f"a reward is NAME or NAME*WEIGHT, got {short_repr(entry)}") from None
    return weights


def _episode(where: str, row: Row, weights: dict[str, float], settings: ImportSettings, tally: Tally) -> Episode:
    prompt, completion = row.get("prompt", MISSING), row.get("completion", MISSING)
    if not weights:
        weights = {
            name: 1.0
            for name, value in row.items()
            if name not in _OTHER and isinstance(value, int | float) and not isinstance(value, bool)
        }
        if weights:
            tally.note(f"the reward is the sum of {', '.join(map(repr, sorted(weights)))} with weight 1")
    scored = {name: value for name in weights if (value := at_path(row, name)) not in (None, MISSING)}
    if not scored:
        raise RowError("no reward function scored it")
    reward = sum_in_order(weights[name] * number(value, name) for name, value in scored.items())
    turns, last = _turns(prompt, completion, settings, tally)
    values = {f"reward.{name}": number(value, name) for name, value in scored.items()}
    if (advantage := row.get("advantage")) is not None:
        values["advantage.recorded"] = number(advantage, "advantage")
    return Episode(where, prompt, row.get("step", ""), tuple(turns), reward, row, last, values=values)


def _turns(prompt: Any, completion: Any, settings: ImportSettings, tally: Tally) -> tuple[list[Exchange], str | None]:
    if isinstance(prompt, str) and isinstance(completion, str):
        return text_turns(prompt, completion, settings.turns, tally)
    context = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(context, list) or not isinstance(completion, list):
        raise RowError("prompt and completion are no texts and no lists of messages", f"{type(completion).__name__}")
    observed(context)  # every message of the prompt is context, also the model's earlier ones
    turns, after = turns_of(completion, prompt=context)
    return turns, None if after is None else after.text
