"""The study of language models: its shortcuts agree with sampled episodes and with the trainer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np
import pytest
import torch
from evidence.language_models.model_policy import flat_parameters
from evidence.language_models.run import learn, measure_families, warm_up
from evidence.language_models.setting import (
    Setting,
    family_settings,
    family_tasks,
    family_tokenizer,
    open_family,
    open_setting,
)
from evidence.language_models.training import demonstrated_states, imitate
from evidence.language_models.work import WORK as FULL
from evidence.language_models.work import LearningWork, TurnForm, WarmUpWork

from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.jobs import JobRunner
from creditflow.train.bench.learning.batch import ascent_weights, batch_credit, loss_turns
from creditflow.train.bench.learning.stack import split_rows
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.losses import token_losses
from creditflow.train.policy.samples import make_rows, token_weights
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_backend, make_policy_agent
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.records.trajectory import Turn

FAMILIES = ("pits", "sokoban")
WORK = replace(
    FULL,
    families=("pits",),
    seeds=2,
    pool=4,
    evaluated=2,
    split="valid",
    warm_up=dict.fromkeys(FAMILIES, WarmUpWork(16, 0.5, 8)),
    learning=LearningWork(iterations=4, tasks=2, size=4, lr=1e-3, points=2),
    methods=("grpo", "grouptd", "oracle_adv"),
)
FORMS = {"token": TurnForm(), "letters": TurnForm("letters"), "history": TurnForm(window=1)}
PLAN = TurnForm("plan")
AVERAGES: tuple[Literal["token_mean", "trajectory_mean", "turn_mean"], ...] = (
    "token_mean",
    "trajectory_mean",
    "turn_mean",
)


@pytest.fixture(scope="module", params=product(FAMILIES, FORMS), ids="-".join)
def warm(request):
    """A family with a model that rarely gives invalid actions, and groups that it played in the environment."""
    name, form = request.param[0], FORMS[request.param[1]]
    setting = open_setting(name, replace(WORK, form=form), 3, "cpu")
    rng = np.random.default_rng(0)
    visited = demonstrated_states(setting.pool, 32, 0.5, rng)
    imitate(setting.policy, visited, WORK.warm_up[name], 150, rng)
    settings, tokenizer = family_settings(open_family(name), form), family_tokenizer(name, 0, form)
    agent = make_policy_agent(settings, make_backend(setting.model, settings), tokenizer, temperature=1.0)
    engine = RolloutEngine(group_env_factory(settings.env, 8, texts=True))
    groups = engine.play(agent, family_tasks(name, "train", 4), seed=1)
    return setting, groups, form


class PlayedTurn(NamedTuple):
    """A recorded turn as its table has it: indices of state, action and next state; whether its completion is in the table."""

    state: int
    action: int
    after: int
    listed: bool
    turn: Turn


def played_turns(setting: Setting, task: int, trajectory) -> list[PlayedTurn]:
    """The turns of a recorded trajectory, from the initial state of the table on."""
    mdp, state, turns = setting.pool[task].mdp, setting.pool[task].mdp.start, []
    for turn, (first, end) in zip(trajectory.turns, pairwise(trajectory.tokens.turn_offsets.tolist()), strict=True):
        action = mdp.actions.index(turn.action) if turn.valid else len(mdp.actions) - 1
        completion = tuple(trajectory.tokens.ids[first:end].tolist())
        listed = not turn.valid or completion in setting.completions[action]
        after = int(mdp.next_states[state, action, 0])
        turns.append(PlayedTurn(state, action, after, listed, turn))
        state = after
    return turns


def as_arrays(setting: Setting, group, task: int) -> ArrayGroup:
    """Convert a recorded group to the form of a simulated one."""
    turns = [turn for trajectory in group.trajectories for turn in played_turns(setting, task, trajectory)]
    before, actions, after = np.array([turn[:3] for turn in turns], np.int32).T
    lengths = np.array([len(trajectory.turns) for trajectory in group.trajectories], np.int64)
    return ArrayGroup(setting.pool[task].mdp, before, after, actions, lengths, str(task))


def test_recorded_turns_have_the_prompts_probabilities_and_transitions_of_the_tables(warm):
    setting, groups, form = warm
    turns = unlisted = 0
    for task, group in enumerate(groups):
        prompted = setting.pool[task]
        mdp, (table,) = prompted.mdp, setting.policy.probabilities([task])
        for trajectory in group.trajectories:
            tokens = trajectory.tokens
            assert len(trajectory.turns) <= mdp.horizon
            logprobs = np.add.reduceat(tokens.logprobs, tokens.turn_offsets[:-1])
            shown = True  # a prompt with a history shows an invalid action as it was written
            of_trajectory = played_turns(setting, task, trajectory)
            for played, prompt, logprob in zip(of_trajectory, tokens.prompts, logprobs, strict=True):
                assert (mdp.keys[played.state], mdp.keys[played.after]) == (
                    played.turn.state_key,
                    played.turn.next_state_key,
                )
                if shown:
                    np.testing.assert_array_equal(prompt, prompted.prompts[played.state])
                    probability, turns = table[played.state, played.action], turns + 1
                    if played.turn.valid and played.listed:
                        assert np.exp(logprob) == pytest.approx(probability, rel=1e-4)
                    else:  # one of the many completions that are the invalid action
                        assert np.exp(logprob) <= table[played.state, -1] + 1e-6
                    unlisted += not played.listed
                shown = not form.window or played.turn.valid
    assert unlisted <= 0.02 * turns  # an action that is spelled with other tokens


@pytest.mark.parametrize("name", ["grpo", "grouptd"])
def test_the_merged_gradient_equals_the_gradient_of_the_trainers_loss(warm, name):
    setting, played, _ = warm
    chosen = [
        i
        for i, group in enumerate(played)
        if group.arrays.valid.all()
        and all(turn.listed for trajectory in group.trajectories for turn in played_turns(setting, i, trajectory))
    ]
    assert chosen
    groups = [as_arrays(setting, played[i], i) for i in chosen]
    tables = setting.policy.probabilities(chosen)
    credits_ = batch_credit(name, groups, tables, None, [(0, i) for i in chosen])
    rows = make_rows([played[i] for i in chosen], credits_)
    trajectories = [trajectory for i in chosen for trajectory in played[i].trajectories]
    turns, tokens = (
        sum(map(len, column)) for column in zip(*((t.turns, t.tokens.ids) for t in trajectories), strict=True)
    )
    # with several tokens in a turn the mean over tokens is that over turns up to one factor, and the other averages are not
    for aggregation in AVERAGES[: 1 if tokens > turns else len(AVERAGES)]:
        loss = LossConfig(aggregation=aggregation)
        merged = ascent_weights(loss_turns(groups, credits_, loss), np.concatenate(tables))
        ours = setting.policy.gradient(chosen, split_rows(merged, [len(table) for table in tables]))
        theirs = tokens / turns * trainers_ascent(setting.model, rows, token_weights(rows, aggregation))
        assert np.abs(theirs).max() > 0.0
        np.testing.assert_allclose(ours, theirs, atol=2e-5 * np.abs(theirs).max())


def trainers_ascent(model, rows, weights):
    """The negative gradient of the trainer's loss with these weights of the tokens: float64 (P,)."""
    model.zero_grad(set_to_none=True)
    for batch in batches_of(rows, 4096, "cpu"):
        policy = token_logprobs(model, batch)
        flat = [torch.from_numpy(np.concatenate([x[i] for i in batch.rows]).astype(np.float32)) for x in
                (weights, [row.advantage for row in rows])]  # fmt: skip
        losses = token_losses(policy.logprob, policy.entropy, policy.logprob.detach(), flat[1], LossConfig())
        (flat[0] * losses["loss"]).sum().backward()
    return -torch.cat([p.grad.flatten() for p in flat_parameters(model)]).double().numpy()


@pytest.mark.parametrize("form", [*FORMS.values(), PLAN])
def test_every_completion_has_the_probability_of_its_tokens_one_after_the_other(form):
    setting = open_setting("pits", replace(WORK, form=form), 3, "cpu")
    prompts = setting.pool[0].prompts[:6]
    with torch.no_grad():
        table = setting.policy.log_probabilities(prompts).exp().double().numpy()
        for row, prompt in enumerate(prompts):
            for action, completions in enumerate(setting.completions):
                ids = [torch.tensor([[*prompt.tolist(), *completion]]) for completion in completions]
                logs = [torch.log_softmax(setting.model(one).logits[0].double(), -1) for one in ids]
                total = 0.0
                for one, log in zip(ids, logs, strict=True):
                    at = range(len(prompt) - 1, one.shape[1] - 1)
                    total += float(torch.exp(sum(log[i, one[0, i + 1]] for i in at)))
                assert table[row, action] == pytest.approx(total, rel=2e-4)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{"keys": "merged"}, {"keys": "fresh"}, {"wrong": 0.3}], ids=["merged", "fresh", "wrong"]
)
def test_keys_and_wrong_outcomes_change_what_a_scheme_learns_and_not_what_it_starts_from(changes):
    learning = replace(WORK.learning, iterations=4, points=1)
    work = replace(WORK, warm_up={"pits": WarmUpWork(64, 0.5, 200, until=0.25)}, learning=learning)
    start = warm_up("pits", 3, work, "cpu")["parameters"]
    plain, changed = (
        learn("pits", 3, "graphgpo", replace(work, learning=learning), "cpu", start)
        for learning in (work.learning, replace(work.learning, **changes))
    )
    assert plain[0] == changed[0]
    assert plain[-1]["train"] != changed[-1]["train"]


def test_the_whole_study_runs_and_all_methods_of_a_seed_start_from_one_model(tmp_path):
    family = measure_families(WORK, 5, "cpu", JobRunner(tmp_path, "study", 1))["pits"]
    assert {name: len(curves) for name, curves in family["runs"].items()} == dict.fromkeys(WORK.methods, WORK.seeds)
    for seed, start in enumerate(family["start"]):
        for curves in family["runs"].values():
            assert curves[seed][0]["held_out"] == start["held_out"]
    for floor in family["floors"]:
        assert floor["imitation"].keys() == {"same", "clean"} and 0.1 <= floor["best"]["temperature"] <= 1.0
