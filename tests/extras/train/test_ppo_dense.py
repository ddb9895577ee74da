"""The example of PPO learns, repeats by its seed, and has dense rewards; the adapter gives Stable-Baselines3 the same environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from evidence.dense_rewards.ppo_dense import Options, Policy, _rollout, learn, main
from gymnasium.vector import SyncVectorEnv
from helpers.worlds.sokoban_vector import sokoban_vector

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.wrappers import PotentialStore, VectorDenseReward
from creditflow.wrappers.hindsight import RolloutShaping

PANEL = "small-v1:train"
LEVEL = "#####\n#@$.#\n#   #\n#####"


def small():
    return sokoban_vector(
        16, autoreset_mode="SameStep", level=LEVEL, obs_mode="planes", action_mode="discrete", max_steps=8
    )


def test_it_learns_one_level():
    rates = []
    envs = small()
    options = Options(batch_steps=16, minibatch=64, hidden=32)

    def after(done, policy):
        rates.append(float(policy(torch.as_tensor(envs.reset()[0]))[0].exp()[0, 3].detach()))

    learn(envs, options, steps=16 * 16 * 30, seed=0, after_batch=after)
    assert rates[0] < 0.5 < 0.8 < rates[-1]  # the probability of the one good first move


class Script:
    """Two environments whose rewards and ends are given; an observation is a number, which is its value too."""

    num_envs = 2
    rewards = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0], [3.0, 0.0], [1.0, 1.0]])
    terminated = np.array([[0, 0], [0, 1], [0, 0], [1, 0], [0, 0]], bool)
    truncated = np.array([[0, 0], [1, 0], [0, 0], [1, 1], [0, 0]], bool)  # at step 3 the first is cut where it ends

    def __init__(self) -> None:
        self.number = 0

    def step(self, actions):
        at, self.number = self.number, self.number + 1
        last = np.array([[50.0 + at], [70.0 + at]])
        return self.obs(at + 1), self.rewards[at], self.terminated[at], self.truncated[at], {"final_obs": last}

    @staticmethod
    def obs(number):
        return np.array([[10.0 + number], [20.0 + number]])


class Values:
    """The value of an observation is itself."""

    def act(self, obs, rng):
        return np.zeros(len(obs), dtype=np.int64)

    def __call__(self, obs):
        return torch.zeros(len(obs), 4), obs[:, 0]


def test_advantages_are_sums_of_temporal_differences_up_to_the_end_of_an_episode():
    """With the value of the last state where a limit cut the episode, and none where it ended."""
    gamma, lam = 0.9, 0.8
    envs: Any = Script()
    policy: Any = Values()
    options = Options(batch_steps=5, gamma=gamma, gae_lambda=lam)
    batch, _ = _rollout(envs, policy, Script.obs(0), options, np.random.default_rng(0))
    advantages = batch.advantages.reshape(5, 2).numpy()
    for env, (first, last) in enumerate(((10.0, 50.0), (20.0, 70.0))):
        for start in range(5):
            total, weight = 0.0, 1.0
            for step in range(start, 5):
                ended, cut = Script.terminated[step, env], Script.truncated[step, env]
                following = 0.0 if ended else last + step if cut else first + step + 1
                total += weight * (Script.rewards[step, env] + gamma * following - (first + step))
                weight *= gamma * lam
                if ended or cut:
                    break
            assert advantages[start, env] == pytest.approx(total, rel=1e-6)
    np.testing.assert_allclose(batch.returns, batch.advantages + batch.obs[:, 0], rtol=1e-6)


def test_a_seed_repeats_the_run():
    weights = []
    for seed in (1, 1, 2):
        policy = learn(small(), Options(batch_steps=8, minibatch=64, hidden=16), steps=512, seed=seed)
        weights.append(torch.cat([p.detach().ravel() for p in policy.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_actions_are_sampled_from_the_policy():
    torch.manual_seed(0)
    policy = Policy(6, 4, 8)
    obs = np.ones((20_000, 6), dtype=np.uint8)
    drawn = policy.act(obs, np.random.default_rng(0))
    expected = policy(torch.as_tensor(obs[:1]))[0].exp().detach().numpy()[0]
    assert np.abs(np.bincount(drawn, minlength=4) / len(drawn) - expected).max() < 0.02


@pytest.mark.parametrize("options", [{"autoreset_mode": "NextStep"}, {"action_mode": "text"}])
def test_other_modes_are_rejected(options):
    envs = sokoban_vector(
        2, **{"autoreset_mode": "SameStep", "action_mode": "discrete", "obs_mode": "planes", **options}
    )
    with pytest.raises(ConfigError, match="SameStep"):
        learn(envs, Options(), steps=1, seed=0)


@pytest.mark.parametrize("minibatch", [1, 5, 45])
def test_a_minibatch_of_one_sample_is_refused(minibatch):
    """Its normalised advantage would be nan, and the policy with it."""
    with pytest.raises(ConfigError, match="single sample"):
        learn(small(), Options(batch_steps=31, minibatch=minibatch, hidden=4), steps=1, seed=0)  # 496 samples


def test_hindsight_rewards_with_a_fixed_version_train_the_policy_of_the_wrappers_rewards():
    shaped: dict[str, Any] = {"scheme": "gigpo", "gamma": 0.9}
    run: dict[str, Any] = {
        "options": Options(batch_steps=16, minibatch=64, hidden=16, gamma=0.9),
        "steps": 1024,
        "seed": 0,
    }
    store = PotentialStore("gigpo", discount=0.9)
    learn(small(), **run, hindsight=RolloutShaping(16, **shaped, store=store))
    version = store.freeze()
    assert any(any(values.values()) for values in version.values.values())  # nonzero rewards were learned
    wrapped = VectorDenseReward(small(), **shaped, truncation="bootstrap", store=version)
    policies = [
        learn(small(), **run, hindsight=RolloutShaping(16, **shaped, store=version)),
        learn(wrapped, **run),
        learn(small(), **run),
    ]
    hindsight, online, sparse = (torch.cat([p.detach().ravel() for p in policy.parameters()]) for policy in policies)
    torch.testing.assert_close(hindsight, online, rtol=0.0, atol=1e-4)
    assert (hindsight - sparse).abs().max() > 1e-2


def test_the_example_learns_with_dense_rewards_as_printed(capsys):
    main(["--steps", "20480"])
    curve, potential = capsys.readouterr().out.splitlines()
    assert curve.startswith(" 20,480 steps: ")
    assert 1 <= int(potential.split()[0]) <= 128


@pytest.mark.sb3
def test_the_adapter_gives_stable_baselines_what_gymnasium_gave():
    pytest.importorskip("stable_baselines3", reason="needs the extra [sb3]")
    from creditflow.train.adapters.sb3 import VectorEnvAdapter

    adapter, plain = VectorEnvAdapter(small(), info_keys=("elapsed_steps",)), small()
    adapter.seed(5)
    assert np.array_equal(adapter.reset(), plain.reset(seed=5)[0])
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(30):
        actions = rng.integers(0, 4, 16)
        obs, rewards, dones, infos = adapter.step(actions)
        there = plain.step(actions)
        assert np.array_equal(obs, there[0])
        assert np.array_equal(rewards, there[1].astype(np.float32))
        assert np.array_equal(dones, there[2] | there[3])
        for number, info in enumerate(infos):
            last = there[4]["final_info"] if dones[number] else there[4]
            assert info["elapsed_steps"] == last["elapsed_steps"][number]
            assert ("terminal_observation" in info) == dones[number]
            if dones[number]:
                ended += 1
                assert adapter.reset_infos[number] == {"elapsed_steps": 0}
                assert np.array_equal(info["terminal_observation"], there[4]["final_obs"][number])
                assert info["TimeLimit.truncated"] == bool(there[3][number])
    assert ended > 20
    assert adapter.env_is_wrapped(object) == [False] * 16
    with pytest.raises(ConfigError, match="no separate attributes"):
        adapter.set_attr("x", 1)
    with pytest.raises(ConfigError, match="not separate objects"):
        adapter.env_method("x")
    with pytest.raises(ConfigError, match="SameStep"):
        VectorEnvAdapter(sokoban_vector(2))


@pytest.mark.sb3
def test_the_adapter_refuses_observations_that_change_and_passes_the_options_of_reset():
    pytest.importorskip("stable_baselines3", reason="needs the extra [sb3]")
    from creditflow.train.adapters.sb3 import VectorEnvAdapter

    with pytest.raises(ConfigError, match="copy=True"):
        VectorEnvAdapter(SyncVectorEnv([lambda: SokobanEnv(level=LEVEL)], copy=False, autoreset_mode="SameStep"))
    envs = sokoban_vector(3, autoreset_mode="SameStep", panel=PANEL, obs_mode="planes", action_mode="discrete")
    adapter, chosen = VectorEnvAdapter(envs, info_keys=("task_id",)), envs.get_attr("tasks")[0].task_ids()[7]
    adapter.set_options({"task_id": chosen})
    adapter.reset()
    assert [info["task_id"] for info in adapter.reset_infos] == [chosen] * 3
    adapter.reset()  # they hold for one reset
    assert len({info["task_id"] for info in adapter.reset_infos}) > 1
    adapter.set_options([{"task_id": chosen}, {}, {}])
    with pytest.raises(ConfigError, match="share the options"):
        adapter.reset()
