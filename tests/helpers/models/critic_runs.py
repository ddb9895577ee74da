"""Runs with a critic: settings, rollouts, and the annotator of a run's critic."""

from __future__ import annotations

from typing import Any

import torch
from helpers.models.training_runs import Make, same

from creditflow.train.annotate import annotate
from creditflow.train.policy.critic import Critic
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.trainer import Trainer
from creditflow.wrappers.trajectory import Group

__all__ = ["PPO", "TURNS", "Make", "critic_annotator", "iterations", "played", "same", "weights"]

PPO = ("credit.scheme=ppo_gae", "critic.kind=separate", "critic.lr=3e-3")
TURNS = ("credit.scheme=mt_ppo", "critic.kind=shared", "critic.lr=3e-2")


def iterations(run: Trainer) -> list[dict[str, Any]]:
    return [r for r in read_metrics(run.logger.path) if r["kind"] == "iteration"]


def weights(run: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in run._trained_modules().named_parameters()}


def played(run: Trainer) -> list[Group]:
    """Rollouts of the run's policy, with its critic's values."""
    from creditflow.train.run.assemble import make_policy_agent, make_rollout_engine

    agent = make_policy_agent(run.settings, run.backend, run.tokenizer, temperature=1.0)
    groups = make_rollout_engine(run.settings, run.scheme).play(agent, run.tasks[:2], seed=5)
    for annotator in run.annotators:
        groups = annotate(groups, annotator)
    return groups


def critic_annotator(critic: Critic) -> Any:
    from creditflow.train.annotate import Provenance
    from creditflow.train.annotate.critic import CriticAnnotator

    return CriticAnnotator(critic, Provenance("critic", 1))
