"""Sources of goals: the panels of the embedded catalogue, or WebShop's own files.

A stock is loaded once per process and shared by all environments over the same data.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from creditflow.envs.errors import ConfigError, DataError, check_name, short_repr
from creditflow.envs.files.paths import checked_path
from creditflow.envs.tasks import PanelRow, parse_panel_spec
from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.stock import Stock, load_stock
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.tasks import GoalTasks, ListedGoals
from creditflow.envs.webshop.presets import Preset
from creditflow.envs.webshop.reward import attributes_met, option_met

__all__ = ["DEFAULT_PANEL", "RELEASED", "open_stock", "open_tasks", "solvable"]

DEFAULT_PANEL = "standard-v1:train"
RELEASED: Final = {
    "small-synthetic-v1": "synthetic",
    "small-human-v1": "human",
}  # panels of released data: kind of goals
SEED: Final = 42
GOAL_SEED: Final = 233


@lru_cache(maxsize=1 << 15)
def solvable(catalogue: Catalogue, goal: Goal) -> bool:
    """Whether buying the goal's own product with exactly the wanted options scores 1.

    The original's colour rule makes some synthetic goals unsolvable: see ``colours.reduce_colour``.
    """
    try:
        product = catalogue.product(goal.asin)
    except KeyError:
        return False
    return (
        catalogue.price(goal.asin) <= goal.price_cap
        and attributes_met(product, goal) == len(goal.attributes)
        and all(option_met(option, goal.option_values) for option in goal.options)
    )


@lru_cache(maxsize=4)
def open_stock(path: str, goals: str, seed: int, goal_seed: int) -> Stock:
    """The stock of a folder, cached."""
    return load_stock(path, goals=goals, seed=seed, goal_seed=goal_seed)


@lru_cache(maxsize=16)
def _rows_of(spec: str) -> tuple[PanelRow, ...]:
    return parse_panel_spec("webshop", spec)


@lru_cache(maxsize=16)
def _listed_goals(path: str, kind: str, spec: str) -> ListedGoals:
    return ListedGoals(open_stock(path, kind, SEED, GOAL_SEED), _rows_of(spec))


def _open_released(panel: str, data: str | Path | Stock | None, kind: str) -> ListedGoals:
    """The goals of a panel of released data.

    Raises:
        ConfigError: no data, or an unknown split.
        DataError: other data.
    """
    if data is None:
        raise ConfigError(
            f"panel {panel!r} lists goals of WebShop's 1,000 released products without their texts; pass their folder with data=FOLDER"
        )
    stock = data if isinstance(data, Stock) else open_stock(_path(data), kind, SEED, GOAL_SEED)
    try:
        return (
            ListedGoals(stock, _rows_of(panel)) if isinstance(data, Stock) else _listed_goals(_path(data), kind, panel)
        )
    except DataError as error:
        raise DataError(
            f"panel {panel!r} needs WebShop's 1,000 released products, from which this data differs ({error}); "
            "`creditflow data check webshop FOLDER` lists the differences"
        ) from error


def _path(data: str | Path) -> str:
    return str(checked_path("data", data).resolve())


def open_tasks(
    preset: Preset, *, panel: str | None, data: str | Path | Stock | None, goals: str, split: str, seed: int
) -> GoalTasks | ListedGoals:
    """The environment's goals.

    Raises:
        ConfigError: incompatible arguments, or an unknown name.
        DataError: files that are missing or malformed.
    """
    alone = (goals, split, seed) == ("synthetic", "all", SEED)
    if isinstance(panel, str) and (kind := RELEASED.get(panel.partition(":")[0])):
        if not alone:
            raise ConfigError(f"panel {panel!r} determines the goals; leave out goals, split and seed")
        return _open_released(panel, data, kind)
    if data is None:
        if not alone:
            raise ConfigError(
                "goals, split and seed require data=…; the embedded shop needs "
                f"panel='{DEFAULT_PANEL}' or another panel and split"
            )
        if not isinstance(panel, str | None):
            raise ConfigError(f"a panel is written NAME:SPLIT, got {short_repr(panel)}")
        rows = _rows_of(DEFAULT_PANEL if panel is None else panel)
        return GoalTasks(embedded_stock(), [row.locator["goal"] for row in rows], rows)
    if panel is not None:
        raise ConfigError(
            f"data works with the panels {', '.join(RELEASED)} or without a panel, got panel={short_repr(panel)}"
        )
    check_name("kind of goals", goals, ("synthetic", "human"))
    if type(seed) is not int:
        raise ConfigError(f"seed must be an integer, got {short_repr(seed)}")
    if isinstance(data, Stock):
        stock = data
    else:
        goal_seed = seed if preset.goal_seed is None else preset.goal_seed
        stock = open_stock(_path(data), goals, seed, goal_seed)
    return GoalTasks(stock, range(len(stock.goals))[preset.goal_range(split)])
