"""Names of generated levels, which carry all that makes the level again: distribution, size, boxes, lengths, seed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, UnknownTaskError, check_name, short_repr
from creditflow.envs.sokoban.levels.generator import GeneratorOptions
from creditflow.envs.sokoban.levels.gym_sokoban import GymSokobanOptions, RagenOptions
from creditflow.envs.sokoban.levels.xsb import Level

__all__ = ["DISTRIBUTIONS", "generator_options", "level_name", "named_level", "named_levels"]

MAX_SEEDS: Final = 100_000  # of a panel
DISTRIBUTIONS: Final[Mapping[str, type[GeneratorOptions]]] = {
    "exact": GeneratorOptions,
    "gym_sokoban": GymSokobanOptions,
    "ragen": RagenOptions,
}
_NAME: Final = re.compile(r"(\w+)/(\d{1,3})x(\d{1,3})/(\d{1,2})/(\d{1,6})-(\d{1,6})/(\d{1,19})")


def generator_options(options: Mapping[str, Any]) -> GeneratorOptions:
    """Make options from a mapping: those of ``GeneratorOptions``, and ``distribution``, "exact" (default), "gym_sokoban" or "ragen".

    Raises:
        ConfigError: an unknown option or distribution (suggests the nearest one), or an invalid value.
    """
    rest: Any = options
    distribution = "exact"
    if isinstance(options, Mapping) and "distribution" in options:
        rest = {key: value for key, value in options.items() if key != "distribution"}
        distribution = options["distribution"]
    check_name("distribution of levels", distribution, DISTRIBUTIONS)
    return DISTRIBUTIONS[distribution].of(rest)


def level_name(options: GeneratorOptions, seed: int) -> str:
    """Return the name of the level of these options and seed.

    >>> level_name(GymSokobanOptions(8, 8, 2), 17)
    'gym_sokoban/8x8/2/1-30000/17'
    """
    distribution = next(name for name, kind in DISTRIBUTIONS.items() if type(options) is kind)
    lengths = f"{options.min_length}-{options.max_length}"
    return f"{distribution}/{options.height}x{options.width}/{options.boxes}/{lengths}/{seed}"


def named_level(name: str) -> Level:
    """Generate the level with this name, the same on every machine.

    Raises:
        UnknownTaskError: not a name of ``level_name``.
        ConfigError: options out of range, or too few rooms have such a level.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in DISTRIBUTIONS:
        raise UnknownTaskError(
            f"sokoban: {short_repr(name)} is not the name of a generated level; expected "
            "DISTRIBUTION/HEIGHTxWIDTH/BOXES/SHORTEST-LONGEST/SEED, such as 'exact/6x6/1/2-200/17', with a distribution of "
            f"{', '.join(DISTRIBUTIONS)}"
        )
    height, width, boxes, shortest, longest, seed = (int(number) for number in match.groups()[1:])
    if seed >= 1 << 63:
        raise ConfigError(f"sokoban: the seed of {name} must be below 2**63")
    options = DISTRIBUTIONS[match[1]](height, width, boxes, shortest, longest)
    return options.level(np.random.Generator(np.random.PCG64(seed)))


@lru_cache(maxsize=8)
def named_levels(panel: str) -> tuple[Level, ...]:
    """Generate the levels of a panel of seeds such as "ragen/6x6/1/1-30000:123-634"; equal levels occur once.

    Raises:
        ConfigError: not such a panel, or options out of range.
    """
    name, _, seeds = panel.partition(":")
    first, _, last = seeds.partition("-")
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last) < int(first) + MAX_SEEDS):
        raise ConfigError(
            f"sokoban: {short_repr(panel)} is not a panel of generated levels; expected DISTRIBUTION/HEIGHTxWIDTH/BOXES/SHORTEST-LONGEST:FIRST-LAST, "
            f"with at most {MAX_SEEDS:,} seeds, such as 'ragen/6x6/1/1-30000:123-634'"
        )
    levels = [named_level(f"{name}/{seed}") for seed in range(int(first), int(last) + 1)]
    return tuple({level.xsb: level for level in levels}.values())
