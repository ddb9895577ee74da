"""Every credit scheme as a dense reward: what its potential is, or why it has none, from the registry."""

from __future__ import annotations

from creditflow.assets.site.markdown import table
from creditflow.wrappers.credit.registry import names
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS, refusal_reason

__all__ = ["pages", "potential_of"]

PAGE = "how_to/potentials"
OF_THE_HISTORY = {
    "gdcr": "the rewards that the turns so far have earned",
    "egrpo": "the fraction of the question's entities that the thoughts have mentioned",
    "pica": "the success probability of `model=`",
}
INTRODUCTION = """# Every scheme as a dense reward

This page lists the potential Φ of `DenseReward(env, SCHEME, gamma=…)` for every registered scheme. Schemes without a potential are rejected with the reason
given. [Dense rewards in your trainer](dense_rewards.md) explains which one to use.
"""


def pages() -> dict[str, tuple[str, str]]:
    """The page."""
    rows = [
        ["scheme", "Φ is a function of", "and estimates"],
        *([f"`{name}`", *potential_of(name)] for name in names()),
    ]
    return {PAGE: ("", f"{INTRODUCTION}\n{table(rows)}\n")}


def potential_of(scheme: str) -> tuple[str, str]:
    """What the potential of a scheme depends on, and what it estimates or why there is none."""
    if scheme in HISTORY:
        return "the history", OF_THE_HISTORY[scheme]
    if scheme not in POTENTIALS:
        return "–", f"rejected: {refusal_reason(scheme)}".replace("'", "`")
    kind = POTENTIALS[scheme]
    if kind.by_distance:
        return "the state", "the distance to a success"
    looks_back = kind.depth is not POTENTIALS["gigpo"].depth
    return "the last states" if looks_back else "the state", "the value for the policy that played"
