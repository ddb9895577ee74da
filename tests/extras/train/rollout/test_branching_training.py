"""Branching with a language model: branches continue their parents' tokens, and runs with branches train and resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow.train.run.metrics_log import read_metrics
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

BRANCHED = (
    "rollout.branching.max_trajectories=7", "rollout.branching.entropy_tokens=2", "rollout.branching.base=1.0", "rollout.group_size=3",
)  # fmt: skip


def branches(group: Group) -> list[Trajectory]:
    return [t for t in group.trajectories if t.parent]


def test_a_branch_continues_its_parents_tokens(trainer_of: Any, config: dict[str, Any]) -> None:
    from creditflow.train.run.assemble import make_policy_agent, make_rollout_engine

    for history in ("append", "window"):
        run = trainer_of(
            config, *BRANCHED, f"prompting.history={history}", f"out={config['out']}-{history}", "update.iterations=0"
        )
        run.run()
        agent = make_policy_agent(run.settings, run.backend, run.tokenizer, temperature=1.0, entropies=2)
        groups = make_rollout_engine(run.settings, run.scheme).play(agent, run.tasks[:2], seed=3)
        found = [(group, b) for group in groups for b in branches(group)]
        assert found
        for group, b in found:
            [parent] = [t for t in group.trajectories if t.trajectory_id == b.parent]
            assert b.tokens is not None
            assert parent.tokens is not None
            k = b.fork_turn - (parent.fork_turn if parent.parent else 0)
            if history == "window":
                np.testing.assert_array_equal(b.tokens.prompts[0], parent.tokens.prompts[k])
            else:
                n = int(parent.tokens.turn_offsets[k])
                assert b.tokens.turn_offsets[0] == n
                np.testing.assert_array_equal(b.tokens.ids[:n], parent.tokens.ids[:n])
                # both read the same message before they answered
                wrote = n + int(np.flatnonzero(b.tokens.mask[n:])[0])
                np.testing.assert_array_equal(b.tokens.ids[n:wrote], parent.tokens.ids[n:wrote])


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("prompting.history=window",),
        ("update.row_layout=turn",),
        ("update.epochs=2", "update.minibatches=2"),
        ("rollout.branching.shared_prefix_advantage=sum", "rollout.branching.rule=probability"),
        ("credit.scheme=ppo_gae", "critic.kind=separate"),
        ("credit.scheme=mt_ppo", "critic.kind=shared"),
    ],
    ids=lambda more: ",".join(more) or "plain",
)
def test_a_branching_run_trains_on_what_was_sampled(
    trainer_of: Any, config: dict[str, Any], more: tuple[str, ...]
) -> None:
    run = trainer_of(config, *BRANCHED, *more)
    run.run()
    records = [r for r in read_metrics(run.logger.path) if r["kind"] == "iteration"]
    assert all(r["branches"] > 0 for r in records)
    assert all(r["sampler_mismatch_max"] < 1e-4 for r in records)
