"""Task sentences of generated houses: frames in which {o} is the object's type and {r} the receptacle's or lamp's."""

from __future__ import annotations

from typing import Final

__all__ = ["WORDINGS"]

# "released" has the frames of the release, equally often as there; "own" says the same in other words, to test a policy's
# dependence on them; "mixed" has both
_RELEASED: Final[dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": ("put a {o} in {r}", "put some {o} on {r}"),
    "look_at_obj_in_light": ("look at {o} under the {r}", "examine the {o} with the {r}"),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    "pick_two_obj_and_place": ("put two {o} in {r}", "find two {o} and put them in {r}"),
}
_OWN: Final[dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": ("put one {o} in the {r}", "bring any {o} to the {r}"),
    "look_at_obj_in_light": ("look at one {o} by the light of the {r}", "hold any {o} under the {r}"),
    "pick_clean_then_place_in_recep": ("put one clean {o} in the {r}", "wash any {o}, then leave it in the {r}"),
    "pick_heat_then_place_in_recep": ("put one hot {o} in the {r}", "warm up any {o}, then leave it in the {r}"),
    "pick_cool_then_place_in_recep": ("put one cold {o} in the {r}", "chill any {o}, then leave it in the {r}"),
    "pick_two_obj_and_place": ("put two {o} in one {r}", "bring a pair of {o} to the same {r}"),
}
# wording -> task type -> frames, which are sampled uniformly
WORDINGS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "released": _RELEASED,
    "own": _OWN,
    "mixed": {task: frames + _OWN[task] for task, frames in _RELEASED.items()},
}
