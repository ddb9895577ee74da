"""The suite of language models: its shortcuts agree with sampled episodes and with the trainer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from creditflow.train.bench.document import RunOptions
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import policy_gradient, success
from creditflow.train.bench.language_model.suite.model_policy import flat_parameters, load_parameters, parameter_vector
from creditflow.train.bench.language_model.suite.run import run_language_models
from creditflow.train.bench.language_model.suite.setting import (
    Setting,
    family_settings,
    family_tasks,
    open_family,
    open_setting,
    parameters_of,
    parameters_text,
)
from creditflow.train.bench.language_model.suite.training import demonstrated_states, imitate
from creditflow.train.bench.language_model.suite.work import LM_PRESETS, WarmUpWork
from creditflow.train.bench.learning.batch import batch_credit
from creditflow.train.bench.learning.loss import ascent_weights, loss_turns
from creditflow.train.bench.learning.stack import split_rows
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.losses import token_losses
from creditflow.train.policy.samples import make_rows, token_weights
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_backend, make_policy_agent
from creditflow.train.run.identity import OtherRunError
from creditflow.train.settings.update import LossConfig

WORK = replace(LM_PRESETS["lm-smoke"], pool=4, evaluated=2)
FAMILIES = ("pits", "sokoban")


@pytest.fixture(scope="module", params=FAMILIES)
def warm(request):
    """A family with a model that rarely gives invalid actions, and groups that it played in the environment."""
    name = request.param
    setting = open_setting(name, WORK, 3, "cpu")
    rng = np.random.default_rng(0)
    visited = demonstrated_states(setting.pool, 32, 0.5, rng)
    imitate(setting.policy, visited, WORK.warm_up[name], 150, rng)
    settings = family_settings(open_family(name))
    agent = make_policy_agent(settings, make_backend(setting.model, settings), _tokenizer(name), temperature=1.0)
    engine = RolloutEngine(group_env_factory(settings.env, 4, texts=True))
    groups = engine.play(agent, family_tasks(name, "train", 4), seed=1)
    return setting, groups


def _tokenizer(name):
    from creditflow.train.bench.language_model.suite.setting import family_tokenizer

    return family_tokenizer(name)


def as_arrays(setting: Setting, group, task: int) -> ArrayGroup:
    """Convert a recorded group to the form of a simulated one."""
    mdp = setting.pool[task].mdp
    turns = [turn for trajectory in group.trajectories for turn in trajectory.turns]
    return ArrayGroup(
        mdp,
        np.array([mdp.index[turn.state_key] for turn in turns], np.int32),
        np.array([mdp.index[turn.next_state_key] for turn in turns], np.int32),
        np.array([mdp.actions.index(turn.action) if turn.valid else len(mdp.actions) - 1 for turn in turns], np.int32),
        np.array([len(trajectory.turns) for trajectory in group.trajectories], np.int64),
        str(task),
    )


def test_recorded_turns_have_the_prompts_probabilities_and_transitions_of_the_tables(warm):
    setting, groups = warm
    for task, group in enumerate(groups):
        prompted = setting.pool[task]
        (table,) = setting.policy.probabilities([task])
        for trajectory in group.trajectories:
            tokens = trajectory.tokens
            assert len(trajectory.turns) <= prompted.mdp.horizon
            for turn, prompt, logprob in zip(trajectory.turns, tokens.prompts, tokens.logprobs, strict=True):
                state = prompted.mdp.index[turn.state_key]
                np.testing.assert_array_equal(prompt, prompted.prompts[state])
                if not turn.valid:  # one of the many tokens that are the invalid action
                    assert np.exp(logprob) <= table[state, -1] + 1e-6
                    assert turn.next_state_key == turn.state_key
                    continue
                action = prompted.mdp.actions.index(turn.action)
                assert np.exp(logprob) == pytest.approx(table[state, action], rel=1e-4)
                assert prompted.mdp.index[turn.next_state_key] == prompted.mdp.next_states[state, action, 0]


@pytest.mark.parametrize("aggregation", ["token_mean", "trajectory_mean", "turn_mean"])
@pytest.mark.parametrize("name", ["grpo", "grouptd"])
def test_the_merged_gradient_equals_the_gradient_of_the_trainers_loss(warm, name, aggregation):
    setting, played = warm
    chosen = [i for i, group in enumerate(played) if group.arrays.valid.all()]
    assert chosen
    groups = [as_arrays(setting, played[i], i) for i in chosen]
    tables = setting.policy.probabilities(chosen)
    credits_ = batch_credit(name, groups, tables, None, [(0, i) for i in chosen])
    loss = LossConfig(aggregation=aggregation)
    merged = ascent_weights(loss_turns(groups, credits_, loss), np.concatenate(tables), loss)
    ours = setting.policy.gradient(chosen, split_rows(merged, [len(table) for table in tables]))
    rows = make_rows([played[i] for i in chosen], credits_)
    weights = token_weights(rows, aggregation)
    setting.model.zero_grad(set_to_none=True)
    for batch in batches_of(rows, 4096, "cpu"):
        policy = token_logprobs(setting.model, batch)
        flat = [torch.from_numpy(np.concatenate([x[i] for i in batch.rows]).astype(np.float32)) for x in
                (weights, [row.advantage for row in rows])]  # fmt: skip
        losses = token_losses(policy.logprob, policy.entropy, policy.logprob.detach(), flat[1], LossConfig())
        (flat[0] * losses["loss"]).sum().backward()
    theirs = -torch.cat([p.grad.flatten() for p in flat_parameters(setting.model)]).double().numpy()
    assert np.abs(theirs).max() > 0.0
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * np.abs(theirs).max())


def test_the_exact_gradient_is_the_derivative_of_exact_success(warm):
    setting, _ = warm
    policy = setting.policy
    tables = policy.probabilities([0, 1])
    mdps = [policy.tasks[i].mdp for i in (0, 1)]
    gradient = policy.gradient([0, 1], [policy_gradient(mdp, table) for mdp, table in zip(mdps, tables, strict=True)])
    size = 1e-2 / float(np.linalg.norm(gradient))

    def total(step: float) -> float:
        moved = policy.moved(gradient, step).probabilities([0, 1])
        return sum(float(success(mdp, table)) for mdp, table in zip(mdps, moved, strict=True))

    slope = (total(size) - total(-size)) / (2.0 * size)
    assert slope == pytest.approx(float(gradient @ gradient), rel=0.02)


def test_parameters_survive_a_round_trip_through_text(warm):
    setting, _ = warm
    before = parameter_vector(setting.model)
    load_parameters(setting.model, parameters_of(parameters_text(setting.model)))
    np.testing.assert_array_equal(parameter_vector(setting.model), before)


def test_the_whole_suite_runs_and_a_resumed_run_gives_the_same(tmp_path):
    def run(folder, *, resume=False, **settings):
        options = RunOptions(tmp_path / folder, 1, ("bench",), resume)
        return run_language_models("lm-smoke", options, seed=5, **settings)

    document = run("a")
    again = run("a", resume=True)
    assert again == json.loads(json.dumps(document))
    with pytest.raises(OtherRunError, match="device"):
        run("a", resume=True, device="cuda")
    other = run("b", methods=["grouptd", "grouptd_relative_pooled"])
    assert other["language_models"]["families"] == document["language_models"]["families"]
    for family in document["language_models"]["families"].values():
        starts = {json.dumps(curve[0]["held_out"]) for curves in family["runs"].values() for curve in curves[:1]}
        assert len(starts) == 1  # all methods of a seed start from one model


@pytest.mark.parametrize("family", FAMILIES)
def test_another_run_has_other_tasks(family):
    first, second = (
        {task.canonical_id for split in ("train", "test") for task in family_tasks(family, split, 48, seed)}
        for seed in (0, 1)
    )
    assert len(first) == len(second) == 96
    # small levels may be equal up to symmetry by chance
    assert len(first & second) <= 5


def test_a_warm_up_stops_when_it_is_enough():
    setting = open_setting("pits", WORK, 3, "cpu")
    work, asked = WarmUpWork(4, 0.5, 35, batch=2), []

    def tokens(enough):
        policy = setting.policy
        visited = demonstrated_states(setting.pool, work.episodes, work.noise, np.random.default_rng(0))
        imitate(policy, visited, work, work.steps, np.random.default_rng(1), enough=enough)
        return policy.tokens

    whole = tokens(None)

    def never():
        asked.append(1)
        return False

    assert tokens(never) == whole
    assert len(asked) == 3  # at steps 10, 20 and 30
    assert tokens(lambda: True) < whole / 2
