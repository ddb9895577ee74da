"""The credit scheme of a run, and the annotators that write what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import maker
from creditflow.train.annotate import Annotator, Context, Provenance, make_annotator
from creditflow.train.annotate.critic import NAME, CriticAnnotator
from creditflow.train.annotate.registry import ANNOTATORS, entry_of, spelled
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.canonical.embedding import CachedEmbedder
from creditflow.wrappers.canonical.merge import TextSource, compared_texts, merged_group, similar_states
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.combined import schemes_of
from creditflow.wrappers.records.group import Group

if TYPE_CHECKING:
    from creditflow.train.policy.critic import Critic

__all__ = ["MergedByModel", "make_scheme", "run_annotators"]


def make_scheme(settings: TrainConfig) -> Scheme:
    """Make the credit scheme of the settings.

    Raises:
        ConfigError: the scheme is unknown, a parameter is wrong, or the scheme cannot be used with the other settings.
    """
    parameters = dict(settings.credit.parameters)
    encoder = parameters.get("merge")
    by_model = isinstance(encoder, str) and encoder.startswith("hf:")
    if by_model:
        parameters["merge"] = "none"
    scheme = credit.make(settings.credit.scheme, semantics=settings.credit.semantics, **parameters)
    if by_model and isinstance(scheme, credit.Sum):
        raise ConfigError(
            f"credit.parameters.merge: {encoder} merges the states of one scheme, and {scheme.name} is a sum: use hash"
        )
    _check_annotations(scheme, settings)
    _check_overlong(scheme, settings)
    return MergedByModel(scheme, str(encoder)) if by_model else scheme


@dataclass(frozen=True, eq=False)
class MergedByModel(Scheme):
    """A scheme on groups whose similar text states were merged by an encoder (``credit.parameters.merge: hf:PATH``).

    The encoder is opened at the first group, on the GPU if there is one. It embeds the new texts of a whole batch in one call,
    and every text once per run.

    Args:
        scheme: a scheme with ``key="text"``; its ``merge_threshold`` and ``merge_text`` say what is merged.
        encoder: ``hf:`` and a model folder, or a name in the local Hugging Face cache.

    Raises:
        ConfigError: the scheme compares other keys than texts.
    """

    scheme: Scheme
    encoder: str

    def __post_init__(self) -> None:
        """Check the scheme's key, and take over what describes the scheme."""
        if getattr(self.scheme, "key", None) != "text":
            raise ConfigError(
                f"{self.scheme.name}: merge={self.encoder!r} compares texts; set credit.parameters.key to text with it"
            )
        observed = ("observation",) if self._source == "observation" else ()
        object.__setattr__(self, "texts", tuple(dict.fromkeys((*self.scheme.texts, *observed))))
        for name in ("name", "task_fields", "requires_tokens"):  # class attributes of a scheme
            object.__setattr__(self, name, getattr(self.scheme, name))

    @property
    def needs(self) -> tuple[str, ...]:
        """Annotations of turns that the scheme reads."""
        return self.scheme.needs

    @property
    def couples_groups(self) -> bool:
        """Whether the scheme couples the groups of a batch."""
        return self.scheme.couples_groups

    def undefined_on(self, group: Group) -> str:
        """Return why the scheme cannot score a group, or "" if it can."""
        return self.scheme.undefined_on(group)

    @property
    def _source(self) -> TextSource:
        source: TextSource = getattr(self.scheme, "merge_text", "key")
        return source

    @cached_property
    def embedder(self) -> CachedEmbedder:
        """The encoder with the vectors of the texts that it has seen."""
        from creditflow.agents.language_model.sentence_embedder import make_embedder

        return CachedEmbedder(make_embedder(self.encoder))

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Merge the states of every group, and score the groups."""
        self.embedder.embed(sorted({text for group in groups for text in compared_texts(group, self._source)}))
        threshold = float(getattr(self.scheme, "merge_threshold", 0.9))
        clusters = [similar_states(group, self.embedder, threshold, source=self._source) for group in groups]
        merged = [merged_group(group, each.leader) for group, each in zip(groups, clusters, strict=True)]
        return self.scheme.assign_batch(merged)


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
