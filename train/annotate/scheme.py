"""The credit scheme of a run, and the annotators that write what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import maker
from creditflow.train.annotate import Annotator, Context, Provenance, make_annotator
from creditflow.train.annotate.critic import NAME, CriticAnnotator
from creditflow.train.annotate.registry import ANNOTATORS, entry_of, spelled
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.combined import schemes_of

if TYPE_CHECKING:
    from creditflow.train.policy.critic import Critic

__all__ = ["make_scheme", "run_annotators"]


def make_scheme(settings: TrainConfig) -> Scheme:
    """Make the credit scheme of the settings.

    Raises:
        ConfigError: the scheme is unknown, a parameter is wrong, or the scheme cannot be used with the other settings.
    """
    chosen = settings.credit
    scheme = credit.make(chosen.scheme, semantics=chosen.semantics, **chosen.parameters)
    _check_annotations(scheme, settings)
    _check_overlong(scheme, settings)
    return scheme


def _check_annotations(scheme: Scheme, settings: TrainConfig) -> None:
    """Raise ConfigError if an annotator is unknown, or the scheme needs annotations that none in the settings writes."""
    written = {name for spec in settings.credit.annotators for name in entry_of(spec)[0].values}
    if NAME in scheme.needs and settings.critic.kind == "none":
        raise ConfigError(
            f"scheme {scheme.name!r} needs {NAME}: configure a critic with critic.kind=shared or critic.kind=separate"
        )
    missing = [name for name in scheme.needs if name != NAME and name not in written]
    if missing:
        writers = [spelled(name) for name, entry in ANNOTATORS.items() if set(missing) & set(entry.values)]
        raise ConfigError(
            f"scheme {scheme.name!r} needs {', '.join(missing)}, which no annotator in credit.annotators writes; "
            f"these do: {', '.join(writers) or 'none of this package'}"
        )


def _check_overlong(scheme: Scheme, settings: TrainConfig) -> None:
    """Raise ConfigError if a penalty is subtracted from rewards that the scheme does not read."""
    for each in schemes_of(scheme):
        outcome = getattr(each, "outcome", "return")
        if settings.credit.overlong.max_tokens and outcome != "return":
            raise ConfigError(
                f"credit.overlong is subtracted from rewards, which scheme {each.name!r} does not read with outcome={outcome}; "
                "use outcome=return"
            )


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
