"""PPO with dense rewards, in one file that reads from top to bottom: copy it and change it.

Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347) with generalised advantage estimation, a clipped
objective, one network for policy and value each, and bootstrapping at the step limit, on Sokoban's vector environment. The reward
is that of ``VectorDenseReward``, whose potential learns from the episodes that PPO plays, or, with ``--hindsight``, each batch is
shaped when it is complete, by a potential that has seen it. What is left out: clipping of value changes, annealing, normalised
observations and rewards.

  PYTHONPATH=tests python -m evidence.dense_rewards.ppo_dense --steps 100000           # the potential over features
  PYTHONPATH=tests python -m evidence.dense_rewards.ppo_dense --scheme none            # the sparse reward
  PYTHONPATH=tests python -m evidence.dense_rewards.ppo_dense --scheme grouptd --hindsight
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import parse_panel_spec
from creditflow.wrappers import VectorDenseReward
from creditflow.wrappers.hindsight import RolloutShaping

__all__ = ["Options", "Policy", "learn", "main", "make_envs", "success"]


@dataclass(frozen=True)
class Options:
    """Hyper-parameters.

    Attributes:
        batch_steps: steps per environment between two updates.
        epochs: passes over a batch.
        minibatch: samples of one optimiser step.
        learning_rate: of Adam.
        gamma: discount.
        gae_lambda: λ of the advantage estimates.
        clip: ε, by which the probability ratio may differ from 1.
        entropy: weight of the entropy bonus.
        value: weight of the value loss.
        max_norm: norm to which gradients are clipped.
        hidden: units of each of the two hidden layers.
    """

    batch_steps: int = 32
    epochs: int = 4
    minibatch: int = 512
    learning_rate: float = 1e-3
    gamma: float = 0.97
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    max_norm: float = 0.5
    hidden: int = 128


class Policy(nn.Module):
    """Two perceptrons on flattened observations: logits of the actions, and the value.

    Args:
        inputs: numbers in an observation.
        actions: number of actions.
        hidden: units of each of the two hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hidden: int) -> None:
        super().__init__()
        self.actor, self.critic = _perceptron(inputs, hidden, actions, 0.01), _perceptron(inputs, hidden, 1, 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (n, actions) and values (n,) of observations (n, …)."""
        flat = obs.reshape(len(obs), -1).float()
        return torch.log_softmax(self.actor(flat), dim=-1), self.critic(flat)[:, 0]

    def act(self, obs: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        """Sample actions, int64 (n,), by one uniform number each."""
        with torch.no_grad():
            probabilities = self(torch.as_tensor(obs))[0].exp().double().numpy().cumsum(axis=1)
        drawn = rng.random(len(obs))[:, None] * probabilities[:, -1:]
        return np.asarray((probabilities < drawn).sum(axis=1), dtype=np.int64)


def _perceptron(inputs: int, hidden: int, outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)]
    for layer, scale in zip(layers[::2], (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def learn(
    envs: VectorEnv[Any, Any, Any],
    options: Options,
    *,
    steps: int,
    seed: int,
    hindsight: RolloutShaping | None = None,
    after_batch: Callable[[int, Policy], None] | None = None,
) -> Policy:
    """Train a policy.

    Args:
        envs: environments with array observations, discrete actions and ``autoreset_mode="SameStep"``.
        options: hyper-parameters.
        steps: environment steps, rounded up to whole batches.
        seed: of the network, the sampled actions, the minibatches and the environments.
        hindsight: shapes every batch when it is complete; the environments' rewards are then the raw ones.
        after_batch: called with the steps so far and the policy, after every update.

    Raises:
        ConfigError: other actions, or another mode; a minibatch of one sample, whose advantage cannot be normalised.
    """
    actions = envs.single_action_space
    if not isinstance(actions, Discrete) or envs.metadata["autoreset_mode"] != AutoresetMode.SAME_STEP:
        raise ConfigError("ppo.learn needs discrete actions and an environment made with autoreset_mode='SameStep'")
    samples = options.batch_steps * envs.num_envs
    if min(samples, options.minibatch) < 2 or samples % options.minibatch == 1:
        raise ConfigError(
            f"{samples} samples in minibatches of {options.minibatch} leave one of a single sample, whose advantage cannot be normalised: "
            "choose other batch_steps or minibatch"
        )
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    policy = Policy(int(np.prod(envs.single_observation_space.shape or ())), int(actions.n), options.hidden)
    optimiser = torch.optim.Adam(policy.parameters(), lr=options.learning_rate, eps=1e-5)
    obs, infos = envs.reset(seed=seed)
    if hindsight is not None:
        hindsight.begin_all(obs, infos)
    done = 0
    while done < steps:
        with torch.no_grad():
            batch, obs = _rollout(envs, policy, obs, options, rng, hindsight)
        _update(policy, optimiser, batch, options, rng)
        done += samples
        if after_batch is not None:
            after_batch(done, policy)
    return policy


@dataclass
class _Batch:
    """Samples of one batch: observations (T * N, …), actions, old log-probabilities, advantages and returns (T * N,)."""

    obs: Tensor
    actions: Tensor
    logp: Tensor
    advantages: Tensor
    returns: Tensor


def _rollout(
    envs: VectorEnv[Any, Any, Any],
    policy: Policy,
    obs: NDArray[Any],
    options: Options,
    rng: np.random.Generator,
    hindsight: RolloutShaping | None = None,
) -> tuple[_Batch, NDArray[Any]]:
    """Play ``batch_steps`` steps in all environments, and estimate advantages."""
    shape = (options.batch_steps, envs.num_envs)
    seen = np.zeros((*shape, *obs.shape[1:]), dtype=obs.dtype)
    actions = np.zeros(shape, dtype=np.int64)
    rewards, values, ends = np.zeros(shape), np.zeros((shape[0] + 1, shape[1])), np.zeros(shape)
    for step in range(shape[0]):
        seen[step], actions[step] = obs, policy.act(obs, rng)
        obs, reward, terminated, truncated, infos = envs.step(actions[step])
        rewards[step], ends[step] = reward, terminated | truncated
        if hindsight is not None:
            hindsight.step_all(actions[step], obs, reward, terminated, truncated, infos)
        cut = np.flatnonzero(truncated & ~terminated)
        if len(cut):  # the episode would go on: what it would still be worth belongs to its last reward
            last = torch.as_tensor(np.stack(infos["final_obs"][cut]))
            rewards[step, cut] += options.gamma * policy(last)[1].numpy()
    if hindsight is not None:
        rewards += hindsight.shaping()
    flat = torch.as_tensor(seen.reshape(-1, *obs.shape[1:]))
    log_probabilities, state_values = policy(flat)
    values[:-1] = state_values.numpy().reshape(shape)
    values[-1] = policy(torch.as_tensor(obs))[1].numpy()
    advantages, trace = np.zeros(shape), np.zeros(shape[1])
    for step in reversed(range(shape[0])):
        goes_on = 1.0 - ends[step]
        delta = rewards[step] + options.gamma * goes_on * values[step + 1] - values[step]
        trace = delta + options.gamma * options.gae_lambda * goes_on * trace
        advantages[step] = trace
    chosen = torch.as_tensor(actions.ravel())
    returns = torch.as_tensor((advantages + values[:-1]).ravel(), dtype=torch.float32)
    logp = log_probabilities.gather(1, chosen[:, None])[:, 0]
    return _Batch(flat, chosen, logp, torch.as_tensor(advantages.ravel(), dtype=torch.float32), returns), obs


def _update(
    policy: Policy, optimiser: torch.optim.Optimizer, batch: _Batch, options: Options, rng: np.random.Generator
) -> None:
    """Take ``epochs`` passes of optimiser steps over a batch."""
    for _ in range(options.epochs):
        for index in torch.as_tensor(rng.permutation(len(batch.actions))).split(options.minibatch):
            log_probabilities, values = policy(batch.obs[index])
            logp = log_probabilities.gather(1, batch.actions[index][:, None])[:, 0]
            advantage = batch.advantages[index]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            ratio = (logp - batch.logp[index]).exp()
            clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
            policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
            value_loss = (values - batch.returns[index]).square().mean()
            entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=1).mean()
            loss = policy_loss + options.value * value_loss - options.entropy * entropy
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), options.max_norm)
            optimiser.step()


def make_envs(scheme: str, num_envs: int, panel: str, gamma: float) -> VectorEnv[Any, Any, Any]:
    """Environments that show planes of the board; with a scheme other than "none", their rewards are dense."""
    envs = gym.make_vec(
        "creditflow/Sokoban-v0", num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        panel=panel, obs_mode="planes", action_mode="discrete", grid_shape=[6, 6],
    )  # fmt: skip
    if scheme == "none":
        return envs
    # PPO bootstraps where the limit of turns cuts an episode, so the potential is kept there
    return VectorDenseReward(envs, scheme, gamma=gamma, truncation="bootstrap", publish_every=num_envs)


def success(policy: Policy, panel: str, seed: int) -> float:
    """Fraction of a panel's levels that the policy solves with sampled actions, by the environment's own reward."""
    tasks = [row.task_id for row in parse_panel_spec("sokoban", panel)]
    envs: Any = make_envs("none", len(tasks), panel, gamma=1.0)
    obs = np.stack([env.reset(options={"task_id": task})[0] for env, task in zip(envs.envs, tasks, strict=True)])
    rng, solved = np.random.default_rng(seed), np.zeros(len(tasks), np.bool_)
    for _ in range(envs.get_attr("max_steps")[0]):
        obs, _, terminated, _, _ = envs.step(policy.act(obs, rng))
        solved |= terminated  # an unsolved episode lasts as long as this loop
    return float(solved.mean())


def main(arguments: list[str] | None = None) -> None:
    """Train, and print success on trained and on held-out levels."""
    parser = argparse.ArgumentParser(description="PPO on Sokoban with dense rewards")
    parser.add_argument("--scheme", default="features", help='scheme of the potential, "none" for the sparse reward')
    parser.add_argument(
        "--hindsight", action="store_true", help="shape complete batches, by a potential that has seen them"
    )
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    options = Options()
    envs = make_envs("none" if args.hindsight else args.scheme, 64, "small-v1:train", options.gamma)
    hindsight = RolloutShaping(64, args.scheme, gamma=options.gamma) if args.hindsight else None

    def report(steps: int, policy: Policy) -> None:
        if steps % 20_480 == 0:
            solved = success(policy, "small-v1:train", args.seed), success(policy, "small-v1:test", args.seed)
            print(
                f"{steps:7,} steps: {solved[0]:.0%} of trained levels, {solved[1]:.0%} of held-out levels", flush=True
            )

    learn(envs, options, steps=args.steps, seed=args.seed, hindsight=hindsight, after_batch=report)
    if isinstance(envs, VectorDenseReward):
        print(f"{envs.freeze().version} versions of the potential")


if __name__ == "__main__":
    main()
