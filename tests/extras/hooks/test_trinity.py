"""Trinity-RFT: its own experiences, registry and grouping of metrics carry any scheme's credit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.contract import CASES, ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme

pytestmark = pytest.mark.trinity
pytest.importorskip(
    "trinity", reason="Trinity-RFT is not installed: the tier trinity installs it without its dependencies"
)


def experiences(case: ContractCase, *, first_step: int = 0, ended: bool = True) -> list[Any]:
    """One experience per turn, in Trinity's type; prompt tokens are not in ``action_mask``."""
    from trinity.common.experience import EID, Experience

    exps = []
    for run, episode in enumerate(case.episodes):
        for t, (turn, (shown, sampled)) in enumerate(zip(episode.turns, case.counts(episode), strict=True)):
            info = {"env_state_hash": turn.state_key, "step_reward": turn.reward}
            info |= {"next_env_state_hash": turn.next_state_key}
            info |= {"ended": episode.stop_reason} if ended else {}
            eid = EID(batch=0, task=episode.group_id, run=run, step=t + first_step)
            exps.append(Experience(eid=eid, tokens=list(range(shown + sampled)), prompt_length=shown, info=info))
    return exps


def end(case: ContractCase, scheme: Scheme, **options: Any) -> OnTokens:
    from trinity.algorithm.advantage_fn import ADVANTAGE_FN

    made = ADVANTAGE_FN.get("creditflow.train.adapters.trinity.CreditAdvantage")
    exps, _ = made(scheme=scheme.name)(experiences(case, **options))
    assert all(exp.returns.equal(exp.advantages) for exp in exps)
    return case.by_episode([exp.advantages.tolist() for exp in exps])


def test_the_end_passes_the_contract() -> None:
    check_end(end)
    check_end(lambda case, scheme: end(case, scheme, first_step=1))


def test_without_ends_a_positive_reward_is_a_success() -> None:
    case = CASES[0]
    np.testing.assert_equal(
        end(case, credit.make("grpo"), ended=False), end(case, credit.make("grpo"), ended=True)
    )  # outcomes are rewards, whatever the end


@pytest.mark.parametrize("first_step", [0, 1])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_run_without_its_first_turn_or_a_later_one_is_refused(first_step: int, lost: int) -> None:
    from creditflow.train.adapters.trinity import CreditAdvantage

    exps = experiences(CASES[0], first_step=first_step)
    exps = experiences(CASES[0], first_step=first_step)
    kept = [exp for exp in exps if (exp.eid.run, exp.eid.step) != (1, first_step + lost)]  # that run has four turns
    assert len(kept) == len(exps) - 1
    with pytest.raises(TrajectoryError, match="counted from 0 without gaps"):
        CreditAdvantage("gigpo")(kept)


def test_groups_of_one_have_no_credit() -> None:
    from creditflow.train.adapters.trinity import CreditAdvantage

    exps = experiences(CASES[0])
    alone, metrics = CreditAdvantage("gigpo")([exp for exp in exps if exp.eid.run == 0])
    assert not any(exp.advantages.any() for exp in alone)
    assert metrics["credit/groups"] == 0.0
    with pytest.raises(ConfigError, match="annotators write"):
        CreditAdvantage("prm")
    assert CreditAdvantage("gigpo")([])[0] == []
    assert CreditAdvantage.default_args() == {"scheme": "gigpo"}
    assert not CreditAdvantage.compute_in_trainer()
