"""A scheme whose states were merged by a text encoder before it scores them, as GraphGPO and RewardFlow do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.wrappers.canonical import sentence_embedder
from creditflow.wrappers.canonical.merge import TextSource, compared_texts, merged_group, similar_states
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group

__all__ = ["MergedByModel"]


@dataclass(frozen=True, eq=False)
class MergedByModel(Scheme):
    """A scheme on groups whose similar text states were merged by an encoder (``make(…, merge="hf:MODEL")``).

    The encoder is opened at the first group, on the GPU if there is one. It embeds the new texts of a whole batch in one call,
    and every text once per run.

    Args:
        scheme: a scheme with ``key="text"``; its ``merge_threshold`` and ``merge_text`` say what is merged.
        encoder: ``hf:`` and a model folder, or a name in the local Hugging Face cache.

    Raises:
        ConfigError: the scheme compares other keys than texts, or no encoder is named.
    """

    scheme: Scheme
    encoder: str

    def __post_init__(self) -> None:
        """Check the scheme's key, and take over what describes the scheme."""
        if not self.encoder.startswith("hf:"):
            raise unknown_name_error("value of merge", self.encoder, ["none", "hf:MODEL"])
        if getattr(self.scheme, "key", None) != "text":
            raise ConfigError(f"{self.scheme.name}: merge={self.encoder!r} compares texts; use key='text' with it")
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

    @property
    def outcome(self) -> str:
        """Which number of a trajectory is its outcome."""
        return str(getattr(self.scheme, "outcome", "return"))

    def undefined_on(self, group: Group) -> str:
        """Return why the scheme cannot score a group, or "" if it can."""
        return self.scheme.undefined_on(group)

    @property
    def _source(self) -> TextSource:
        source: TextSource = getattr(self.scheme, "merge_text", "key")
        return source

    @cached_property
    def embedder(self) -> sentence_embedder.CachedEmbedder:
        """The encoder with the vectors of the texts that it has seen."""
        model = self.encoder.removeprefix("hf:")
        return sentence_embedder.CachedEmbedder(sentence_embedder.SentenceEmbedder(model))

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Merge the states of every group, and score the groups."""
        self.embedder.embed(sorted({text for group in groups for text in compared_texts(group, self._source)}))
        threshold = float(getattr(self.scheme, "merge_threshold", 0.9))
        leaders = [similar_states(group, self.embedder, threshold, source=self._source) for group in groups]
        merged = [merged_group(group, leader) for group, leader in zip(groups, leaders, strict=True)]
        return self.scheme.assign_batch(merged)
