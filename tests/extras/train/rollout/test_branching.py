"""Branches: forked from snapshots where the model was uncertain, stored once, counted once, equal for equal seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.policy.samples import make_rows
from creditflow.train.rollout.engine import Budget, RolloutEngine, RolloutReport
from creditflow.train.settings.branching import BranchConfig
from creditflow.wrappers import credit
from creditflow.wrappers.credit.branches import share_prefixes
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

LEVEL = "########\n#@ $  .#\n#      #\n########"
ALWAYS = BranchConfig(max_trajectories=4, entropy_tokens=2, base=1.0)


class FixedAgent:
    """Moves at random; two prompt tokens and three completion tokens a turn; uncertain in given turns. Records forks."""

    name = "agent"

    def __init__(self, uncertain: Sequence[int] = (), mark: int = 0) -> None:
        self.uncertain, self.mark = set(uncertain), mark
        self.forks: list[tuple[int, int, int]] = []
        self.seen: list[tuple[int, str]] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        self.seen += [(len(v.turns), str(v.observation)) for v in views]
        return [self._one(view) for view in views]

    def _one(self, view: View) -> Decision:
        t = len(view.turns)
        entropy = np.full(3, 2.0 if t in self.uncertain else 0.5, np.float32)
        answer = np.array([10 * t, int(view.rng.integers(1000)), 9], np.int32)
        action = ("right", "down", "left")[int(view.rng.integers(3))]
        return Decision(
            action, tokens=TurnTokens(np.array([t, t], np.int32), answer, -np.ones(3, np.float32), entropies=entropy)
        )

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        assert parent.get_state() == child.get_state()
        self.forks.append((id(parent), id(child), turns))


def engine(config: BranchConfig, size: int = 2, budget: Budget | None = None) -> RolloutEngine:
    def make(n: int) -> Callable[[], GroupEnv]:
        return lambda: GroupEnv(lambda: SokobanEnv(level=LEVEL, max_steps=6), size=n)

    return RolloutEngine(make(size), budget, branching=config, make_branch=make(1))


def task() -> Task:
    return SokobanEnv(level=LEVEL).tasks.sample(np.random.default_rng(0))


def play(config: BranchConfig, agent: FixedAgent | None = None, *, seed: int = 0, **options: Any) -> Group:
    [group] = engine(config, **options).play(agent or FixedAgent(range(9)), [task()], seed=seed)
    return group


def branches(group: Group) -> list[Trajectory]:
    return [t for t in group.trajectories if t.parent]


def test_a_turn_is_forked_where_the_entropy_rises_and_never_at_the_first() -> None:
    config = BranchConfig(max_trajectories=9, entropy_tokens=2, base=0.2, slope=0.4, threshold=0.5)
    group = play(config, FixedAgent(uncertain=[3]), size=1)
    assert [(b.parent, b.fork_turn) for b in branches(group)] == [(group.trajectories[0].trajectory_id, 3)]
    # every turn is as uncertain as the first: the entropy does not rise
    assert not branches(play(config, FixedAgent(uncertain=range(9)), size=1))
    assert not branches(
        play(BranchConfig(max_trajectories=9, base=1.0), FixedAgent(uncertain=[]), size=1, budget=Budget(turns=1))
    )


def test_a_group_has_no_more_trajectories_than_allowed() -> None:
    for total in (3, 4, 7):
        group = play(BranchConfig(max_trajectories=total, entropy_tokens=2, base=1.0))
        assert len(group) == total
        assert len(branches(group)) == total - 2


def test_an_uncertain_turn_may_get_several_branches() -> None:
    group = play(BranchConfig(max_trajectories=4, entropy_tokens=2, base=1.0, branches_per_turn=2))
    assert [b.fork_turn for b in branches(group)] == [1, 1]
    assert len({b.parent for b in branches(group)}) == 1


def test_a_branch_does_not_fork_again_before_its_own_first_turn_and_may_after() -> None:
    group = play(BranchConfig(max_trajectories=12, entropy_tokens=2, base=1.0), size=1)
    own = {t.trajectory_id: t for t in group.trajectories}
    deep = [b for b in branches(group) if own[b.parent].parent]
    assert deep
    assert all(b.fork_turn > own[b.parent].fork_turn for b in deep)


def test_a_branch_that_cannot_start_is_reported_and_affects_no_other_episode() -> None:
    class Unwilling(SokobanEnv):
        def set_state(self, snapshot: str) -> Any:
            raise OSError("the server is gone")

    made = engine(ALWAYS)
    made._make_branch = lambda: GroupEnv(lambda: Unwilling(level=LEVEL, max_steps=6), size=1)
    report = RolloutReport()
    [group] = made.play(FixedAgent(range(9)), [task()], seed=0, report=report)
    assert len(group) == 2
    assert all(member.stop_reason != "env_error" for member in group.trajectories)
    assert report.errors == ["OSError: the server is gone"]


def test_branches_belong_to_their_trial_and_have_their_own_random_numbers_in_it() -> None:
    groups = [engine(ALWAYS).play(FixedAgent(range(9)), [task()], seed=0, trial=trial)[0] for trial in (0, 1)]
    assert all(member.trial == trial for trial, group in enumerate(groups) for member in group.trajectories)
    answers = [[b.tokens.ids.tolist() for b in branches(group) if b.tokens] for group in groups]
    assert all(answers)
    assert answers[0] != answers[1]


def test_a_branch_starts_in_its_parents_state_with_its_parents_observation() -> None:
    agent = FixedAgent(range(9))
    group = play(ALWAYS, agent)
    for i, member in enumerate(group.trajectories):
        prefix = group.prefix(i)
        assert len(prefix) == (member.fork_turn if member.parent else 0)
        if member.parent:
            assert prefix[-1].next_state_key == member.turns[0].state_key
            assert (
                member.turns[0].observation
                == next(
                    t
                    for m in group.trajectories
                    if m.trajectory_id == member.parent
                    for t in m.turns[member.fork_turn :]
                ).observation
            )
    assert [turns for _, _, turns in agent.forks] == [b.fork_turn for b in branches(group)]


def test_a_branch_counts_the_steps_of_its_prefix_against_the_limit() -> None:
    for i, member in enumerate((group := play(ALWAYS)).trajectories):
        if member.stop_reason == "env_limit":
            assert len(group.prefix(i)) + len(member.turns) == 6
    for i, member in enumerate((group := play(ALWAYS, budget=Budget(turns=4))).trajectories):
        if not member.success:
            assert len(group.prefix(i)) + len(member.turns) == 4
    for i, member in enumerate((group := play(ALWAYS, budget=Budget(tokens=14))).trajectories):
        if not member.success:
            assert (member.stop_reason, len(group.prefix(i)) + len(member.turns)) == ("token_limit", 3)


def test_a_branchs_return_includes_its_prefix() -> None:
    group = play(BranchConfig(max_trajectories=6, entropy_tokens=2, base=1.0))
    for i, member in enumerate(group.trajectories):
        expected = sum(t.reward for t in group.prefix(i)) + member.episode_return
        assert group.arrays.returns[i] == pytest.approx(expected)


def test_a_branchs_tokens_start_with_its_prefix_which_is_masked_in_the_loss() -> None:
    group = play(ALWAYS)
    own = {t.trajectory_id: t for t in group.trajectories}
    for b in branches(group):
        assert b.tokens is not None
        parent = own[b.parent].tokens
        assert parent is not None
        n = 5 * b.fork_turn  # two prompt tokens and three completion tokens a turn
        assert b.tokens.turn_offsets.tolist() == [n + 5 * t for t in range(len(b.turns) + 1)]
        np.testing.assert_array_equal(b.tokens.ids[:n], parent.ids[:n])
        assert not b.tokens.mask[:n].any()


def test_the_loss_covers_every_generated_token_exactly_once() -> None:
    report = RolloutReport()
    [group] = engine(BranchConfig(max_trajectories=7, entropy_tokens=2, base=1.0)).play(
        FixedAgent(range(9)), [task()], seed=0, report=report
    )
    scored = credit.make("grpo").assign(group)
    for layout in ("trajectory", "turn"):
        rows = make_rows([group], [scored], row_layout=layout)
        # a completion's second token identifies it: sampled once, in the loss once
        trained = [int(token) for row in rows for token in row.ids[row.target]]
        assert len(trained) == report.completion_tokens == 3 * len(group.turns)


def test_the_budget_counts_generated_tokens_and_a_prefix_once() -> None:
    # an episode generates 3 tokens a turn: before turn 1 its group has generated 3, before turn 2 it has generated 6;
    # the branch that begins at turn 1 has not generated any yet
    for tokens, forks in ((3, []), (4, [1]), (6, [1]), (7, [1, 2])):
        group = play(BranchConfig(max_trajectories=99, entropy_tokens=2, base=1.0, max_tokens=tokens), size=1)
        assert [b.fork_turn for b in branches(group)] == forks


FILLED = BranchConfig(max_trajectories=5, entropy_tokens=2, fill_group=True)  # forked where the entropy rises


def test_a_group_with_too_few_forks_is_filled_with_fresh_episodes() -> None:
    counts = []
    for uncertain in ((), (4,), range(1, 9)):
        group = play(FILLED, FixedAgent(uncertain))
        counts.append(len(branches(group)))
        fresh = group.trajectories[2 + counts[-1] :]
        assert [t.replica for t in group.trajectories] == list(range(5))
        assert all(not t.parent and t.turns[0].state_key == group.trajectories[0].turns[0].state_key for t in fresh)
    assert counts[0] == 0 < counts[-1] == 3
    assert len(play(BranchConfig(max_trajectories=5, entropy_tokens=2), FixedAgent())) == 2


def test_a_fresh_episode_is_the_one_that_a_larger_group_would_have_played() -> None:
    [larger] = engine(BranchConfig(), size=5).play(FixedAgent(), [task()], seed=0)
    assert play(FILLED, FixedAgent()).trajectories == larger.trajectories


def test_no_group_is_filled_beyond_its_token_limit() -> None:
    for tokens, size in ((1, 2), (10_000, 5)):
        assert len(play(replace(FILLED, max_tokens=tokens), FixedAgent())) == size


def test_every_group_of_a_batch_is_filled_separately() -> None:
    kept = engine(FILLED)
    for _ in range(2):  # environments of one call serve the next
        groups = kept.play(FixedAgent(), [task(), task()], seed=0)
        assert [len(group) for group in groups] == [5, 5]


def test_an_environment_that_fails_to_start_again_leaves_its_group_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no more of these")

    monkeypatch.setattr(GroupEnv, "start_extra_member", fail)
    report = RolloutReport()
    groups = engine(FILLED).play(FixedAgent(), [task(), task()], seed=0, report=report)
    assert [len(group) for group in groups] == [2, 2]
    assert report.errors == ["OSError: no more of these"] * 2


def test_equal_seeds_give_equal_branches_and_siblings_differ() -> None:
    config = BranchConfig(max_trajectories=6, entropy_tokens=2, base=1.0, branches_per_turn=2)
    first, second, other = (play(config, seed=seed) for seed in (1, 1, 2))
    assert first.trajectories == second.trajectories
    assert first.trajectories != other.trajectories
    one, two = branches(first)[:2]
    assert one.fork_turn == two.fork_turn
    assert one.tokens is not None
    assert two.tokens is not None
    assert one.tokens.ids.tolist() != two.tokens.ids.tolist()


def test_an_engine_can_be_used_again() -> None:
    kept = engine(ALWAYS)
    played = [kept.play(FixedAgent(range(9)), [task()], seed=0)[0].trajectories for _ in range(2)]
    assert played[0] == played[1]


@pytest.mark.parametrize("name", credit.names(given=()))
def test_every_scheme_scores_a_group_with_branches(name: str) -> None:
    group = play(BranchConfig(max_trajectories=7, entropy_tokens=2, base=1.0), seed=3)
    scored = credit.make(name).assign(group)
    assert [len(a) for a in scored.advantages] == [len(t.turns) for t in group.trajectories]
    assert np.isfinite(scored.flat_advantages).all()


def test_shared_turns_have_the_mean_advantage_of_all_trajectories_that_share_them() -> None:
    from helpers.episodes.builders import walk

    root = walk("s a b g", name="root")
    first = walk("a c x", "failed", name="first", parent="root", fork_turn=1)
    second = walk("c y", "failed", name="second", parent="first", fork_turn=2)
    alone = walk("s z", "failed", name="alone")
    group = Group((root, first, second, alone))
    scored = credit.make("grpo").assign(group)
    a = scored.outcome_advantages
    shared = share_prefixes(group, scored)
    np.testing.assert_allclose(shared.advantages[0], [(a[0] + a[1] + a[2]) / 3, a[0], a[0]])
    np.testing.assert_allclose(shared.advantages[1], [(a[1] + a[2]) / 2, a[1]])
    np.testing.assert_allclose(shared.advantages[2], [a[2]])
    np.testing.assert_allclose(shared.advantages[3], [a[3]])
    whole = Group((root, alone))
    assert share_prefixes(whole, credit.make("grpo").assign(whole)).flat_step_advantages.tolist() == [0.0] * 4


def test_max_trajectories_without_room_for_branches_is_rejected(settings_of: Any, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="leaves no room"):
        settings_of(config, "rollout.branching.max_trajectories=4")
    with pytest.raises(ConfigError, match="needs make_branch"):
        RolloutEngine(lambda: GroupEnv(lambda: SokobanEnv(level=LEVEL), size=1), branching=ALWAYS)
