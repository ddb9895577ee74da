"""The panels ``easy-v1``, ``paper-6x6-v1`` and ``paper-8x8-v1``: pinned, disjoint up to symmetry, made again from names."""

from __future__ import annotations

import gzip
from collections import Counter
from hashlib import sha256
from importlib.resources import files
from itertools import islice

import pytest
from helpers.panels.sokoban import COUNTS, GYM_PANELS, gym_panel_rows

from creditflow.envs.sokoban import SokobanEnv, level_oracle, level_task, named_level, parse_level
from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import load_panel, panel_names

PINNED = {
    "easy-v1": "15be648c43292451f2caba036927742e36edab7156d88987697180d30b70e029",
    "paper-6x6-v1": "03cb6082e396f84523c1c1a534e3b27d52f19919917255f833e956b984d989b9",
    "paper-8x8-v1": "c16b944f0307210b6c8b3727b8fba8d527c00914bb600026f0970d2ad1c0bb61",
}
SIDES = {"easy-v1": {5, 6}, "paper-6x6-v1": {6}, "paper-8x8-v1": {8}}


@pytest.mark.parametrize("name", GYM_PANELS)
def test_content_is_pinned(name):
    data = gzip.decompress((files("creditflow.assets") / "panels" / "sokoban" / f"{name}.json.gz").read_bytes())
    assert sha256(data).hexdigest() == PINNED[name]
    assert Counter(row.split for row in load_panel("sokoban", name).rows) == COUNTS[name]


def test_no_level_occurs_twice_up_to_symmetry_in_any_two_panels():
    seen: Counter[str] = Counter()
    for name in panel_names("sokoban"):
        seen.update(build_task(row.locator).canonical_id for row in load_panel("sokoban", name).rows)
    assert seen.most_common(1)[0][1] == 1


@pytest.mark.parametrize("name", GYM_PANELS)
def test_rows_have_their_ids_sizes_and_exact_lengths(name):
    for row in load_panel("sokoban", name).rows[::9]:
        assert build_task(row.locator).task_id == row.task_id
        level = parse_level(row.locator["xsb"])
        assert {level.height, level.width} <= SIDES[name]
        length = level_oracle(level).moves_left(level.player, level.boxes)
        low, high = map(int, row.strata["stratum"].split("-"))
        assert low <= length == row.strata["length"] <= high


@pytest.mark.parametrize("name", GYM_PANELS)
def test_every_row_is_made_again_from_its_name(name):
    for row in load_panel("sokoban", name).rows[::9]:
        assert level_task(named_level(row.strata["name"])).task_id == row.task_id


@pytest.mark.parametrize("name", GYM_PANELS)
def test_the_panel_is_reproducible(name):
    assert list(islice(gym_panel_rows(name), 30)) == list(load_panel("sokoban", name).rows[:30])


def test_levels_can_be_solved_within_the_default_limit():
    env = SokobanEnv(panel="paper-8x8-v1:test")
    for row in load_panel("sokoban", "paper-8x8-v1").split("test")[::16]:
        env.reset(options={"task_id": row.task_id})
        assert env.oracle.distance(env.get_state()) <= env.max_steps - 10
