"""Trinity-RFT: an advantage function for experiences of one turn each, under any scheme.

Its registry takes a dotted path, so the configuration is all there is to write::

    algorithm:
      algorithm_type: gigpo
      advantage_fn: creditflow.train.adapters.trinity.CreditAdvantage
      advantage_fn_args: {scheme: graphgpo}

A workflow writes ``info["env_state_hash"]`` and ``info["step_reward"]``, as Trinity's own GiGPO asks for. If all experiences have
them, ``info["next_env_state_hash"]`` is the state after the turn and ``info["ended"]`` a stop reason, or whether the episode
succeeded; without it a positive sum of rewards is a success. Read and tested at release 0.6.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trinity.algorithm.advantage_fn.advantage_fn import AdvantageFn
from trinity.buffer.operators import ExperienceOperator

from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain
from creditflow.wrappers.credit.registry import make

__all__ = ["CreditAdvantage"]

COLUMNS = {"state": "env_state_hash", "reward": "step_reward", "next_state": "next_env_state_hash", "ended": "ended"}


class CreditAdvantage(AdvantageFn, ExperienceOperator):
    """Writes ``advantages`` and ``returns``; a group is the runs of one task. Arguments are those of ``credit.make``."""

    def __init__(self, scheme: str = "gigpo", **parameters: Any) -> None:
        self.scheme = make(scheme, **parameters)
        require_plain(self.scheme)

    def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """The experiences with credit, and metrics; groups of one run get none."""
        first = min([1, *(exp.eid.step for exp in exps)])  # some workflows count from 1, then in every run
        columns: dict[str, Any] = {ours: [exp.info.get(theirs) for exp in exps] for ours, theirs in COLUMNS.items()}
        if None in columns["next_state"]:
            del columns["next_state"]
        if not any(end is not None for end in columns["ended"]):  # read at last turns, where a missing one is an error
            del columns["ended"]
        turns = TurnColumns(
            group=[exp.eid.tid for exp in exps],
            trajectory=[exp.eid.rid for exp in exps],
            turn=[exp.eid.step - first for exp in exps],
            called=COLUMNS,
            **columns,
        )
        result = advantages(self.scheme, turns, incomplete="zero")
        for exp, number in zip(exps, result.per_turn.tolist(), strict=True):
            exp.advantages = exp.action_mask * number
            exp.returns = exp.advantages.clone()
        return exps, {"credit/groups": float(len(result.groups)), "experience_count": float(len(exps))}

    def __call__(self, exps: Sequence[Any], **_: Any) -> tuple[list[Any], dict[str, float]]:
        """Trinity's call, with arguments of the step that credit does not read."""
        return self.process(list(exps))

    @classmethod
    def compute_in_trainer(cls) -> bool:
        """Not in the trainer: in the explorer's pipeline, where groups are whole."""
        return False

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Arguments that a configuration may leave out."""
        return {"scheme": "gigpo"}
