"""The range of every numeric option: both of its ends, for every scheme that has it."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from creditflow import credit
from creditflow.envs.errors import ConfigError

ANY, WEIGHT, POSITIVE, FRACTION = "(-inf, inf)", "[0, inf)", "(0, inf)", "[0, 1]"
RANGES = {
    "action_weight": ANY,
    "clip": FRACTION,
    "decay": "(1, inf)",
    "discount": FRACTION,
    "distance_discount": "(0, 1)",
    "episode_weight": WEIGHT,
    "format_reward": WEIGHT,
    "gae_lambda": FRACTION,
    "history_length": "[0, 64]",
    "horizon": WEIGHT,
    "invalid_penalty": WEIGHT,
    "key_weight": WEIGHT,
    "log_floor": "(-inf, 0)",
    "match_weight": FRACTION,
    "merge_test": WEIGHT,
    "merge_threshold": "(0, 1]",
    "mix": FRACTION,
    "outcome_weight": ANY,
    "penalty": WEIGHT,
    "penalty_growth": "[1, inf)",
    "penalty_start_turn": "[1, inf)",
    "prior_weight": WEIGHT,
    "progress_count": POSITIVE,
    "progress_weight": WEIGHT,
    "similarity": "[0, 1)",
    "std_eps": WEIGHT,
    "step_baseline": ANY,
    "step_clip": POSITIVE,
    "step_weight": ANY,
    "success_reward": POSITIVE,
    "td_lambda": FRACTION,
    "trajectory_weight": ANY,
    "turn_weight": WEIGHT,
    "weight_exponent": "[0, 64]",
}
EXCEPTIONS = {("graphgpo", "episode_weight"): ANY, ("gdcr", "step_weight"): WEIGHT, ("sapo", "step_weight"): WEIGHT}
OPTIONS = [
    (name, option.name)
    for name in credit.names()
    for option in fields(credit.make(name))
    if type(getattr(credit.make(name), option.name)) in (int, float)
]


def ends(interval: str, *, whole: bool) -> tuple[list[float], list[float]]:
    """The outermost numbers inside of an interval, and the nearest ones outside."""
    inside, outside = list[float](), list[float]()
    for bound, closed, away in (
        (interval[1:].split(",")[0], interval[0] == "[", -math.inf),
        (interval[:-1].split(",")[1], interval[-1] == "]", math.inf),
    ):
        end = float(bound)
        if math.isinf(end):
            inside.append(math.copysign(10**6, end))
            continue
        beyond = end + math.copysign(1, away) if whole else math.nextafter(end, away)
        within = end - math.copysign(1, away) if whole else math.nextafter(end, -away)
        inside.append(end if closed else within)
        outside.append(beyond if closed else end)
    return inside, outside


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=map(".".join, OPTIONS))
def test_an_option_is_accepted_within_its_range_and_rejected_by_name_beyond_either_end(name: str, option: str) -> None:
    kind = type(getattr(credit.make(name), option))
    inside, outside = ends(EXCEPTIONS.get((name, option), RANGES[option]), whole=kind is int)
    for number in inside:
        assert getattr(credit.make(name, **{option: kind(number)}), option) == number
    for number in outside:
        with pytest.raises(ConfigError, match=rf"{name}\.{option} must"):
            credit.make(name, **{option: kind(number)})
    for number in (math.inf, -math.inf, math.nan):
        with pytest.raises(ConfigError, match=option):
            credit.make(name, **{option: number})  # type: ignore[arg-type]  # no option is called semantics
