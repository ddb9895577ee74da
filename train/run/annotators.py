"""The annotators of a training run: its own critic, and those of ``credit.annotators``."""

from __future__ import annotations

from creditflow.envs.registration import maker
from creditflow.train.annotate import Annotator, Context, Provenance, make_annotator
from creditflow.train.annotate.critic import CriticAnnotator
from creditflow.train.policy.critic import Critic
from creditflow.train.settings.schema import TrainConfig

__all__ = ["run_annotators"]


def run_annotators(settings: TrainConfig, critic: Critic | None) -> list[Annotator]:
    """The annotators of every iteration's rollouts, in order.

    Raises:
        ConfigError: an unknown annotator.
    """
    annotators: list[Annotator] = []
    if critic is not None:
        annotators.append(
            CriticAnnotator(
                critic,
                Provenance("critic", 1, {"run": settings.out, "kind": settings.critic.kind}),
                batch_tokens=settings.update.batch_tokens,
                packing=settings.update.packing,
                precision=settings.model.autocast,
            )
        )
    context = Context(make_env=maker(settings.env.name, settings.env.options), device=settings.device)
    return annotators + [make_annotator(spec, context) for spec in settings.credit.annotators]
