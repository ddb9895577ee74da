"""Generated levels have the requested properties, and a seed always gives the same level."""

from __future__ import annotations

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban import GeneratorOptions, generate_level, level_oracle, level_task

KINDS = [
    GeneratorOptions(),
    GeneratorOptions(6, 6, 2, 8, 15),
    GeneratorOptions(7, 9, 2, 10, 10),
    GeneratorOptions(8, 8, 3, 15, 40),
    GeneratorOptions(5, 5, 1, 1, 3),
]


PINNED = [
    "sokoban1:f91d1d1fcabe335c1ae11fc1e7654f40",
    "sokoban1:d9579be206361b66e8d4095898a6df23",
    "sokoban1:31792d846d351b983245d3ab84bc231c",
    "sokoban1:c7672cfc99323fdea0d7ba7c2979129d",
    "sokoban1:0d4bf367e455956c9ec86249b89c7668",
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_levels_have_the_requested_size_boxes_and_exact_length(options):
    rng = np.random.default_rng(1)
    for _ in range(20):
        level = generate_level(rng, options)
        assert (level.height, level.width, len(level.boxes)) == (options.height, options.width, options.boxes)
        assert not set(level.boxes) & set(level.targets)
        assert options.min_length <= level_oracle(level).moves_left(level.player, level.boxes) <= options.max_length


def test_only_raw_integers_are_drawn():
    one, other = np.random.PCG64(3), np.random.PCG64(3)
    level = generate_level(np.random.Generator(one), GeneratorOptions())

    class RawOnly:
        class bit_generator:  # noqa: N801 - stands in for NumPy's attribute
            random_raw = staticmethod(other.random_raw)

    assert generate_level(RawOnly, GeneratorOptions()) == level  # type: ignore[arg-type]  # a stand-in on purpose


def test_the_levels_of_a_seed_are_pinned():
    rng = np.random.Generator(np.random.PCG64(0))
    ids = [level_task(generate_level(rng, options)).task_id for options in KINDS]
    assert ids == PINNED


def test_seeds_give_different_levels():
    levels = {generate_level(np.random.default_rng(seed), GeneratorOptions(8, 8, 2)).xsb for seed in range(30)}
    assert len(levels) == 30


def test_an_impossible_length_is_an_error():
    with pytest.raises(ConfigError, match="widen min_length"):
        generate_level(np.random.default_rng(0), GeneratorOptions(5, 5, 1, 200, 200))


@pytest.mark.parametrize("boxes", [1, 2, 3, 4])
@pytest.mark.parametrize("side", [5, 6, 7, 8, 9, 10])
def test_every_size_and_number_of_boxes_has_levels_of_exact_length(side, boxes):
    rng = np.random.Generator(np.random.PCG64(side * 10 + boxes))
    if (side, boxes) == (5, 4):  # nine cells at most
        with pytest.raises(ConfigError, match="found no level"):
            generate_level(rng, GeneratorOptions(5, 5, 4, 1, 40))
        return
    low, high = (1, 8) if side == 5 else (4 * boxes, 4 * boxes + 12)
    for _ in range(3):
        level = generate_level(rng, GeneratorOptions(side, side, boxes, low, high))
        assert (level.height, level.width, len(level.boxes)) == (side, side, boxes)
        assert low <= level_oracle(level).moves_left(level.player, level.boxes) <= high
