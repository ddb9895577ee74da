"""``critic:DIR``: values of a critic, per turn and per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, boundaries
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.run.digest import folder_digest
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["CriticAnnotator", "make"]

NAME = "value.critic"


class CriticAnnotator:
    """Writes ``value.critic`` of turns, and of the history before every token and after the last.

    The value of a turn is that of the history before the first token that the model wrote in it.

    Args:
        critic: a ``Critic``.
        provenance: provenance of its values.
        batch_tokens, packing, precision: settings of forward passes.
    """

    turn_names = (NAME, f"{NAME}.next")
    trajectory_names: tuple[str, ...] = ()
    token_names = (NAME,)

    def __init__(
        self,
        critic: Any,
        provenance: Provenance,
        *,
        batch_tokens: int = 16384,
        packing: Any = "padded",
        precision: str = "none",
    ) -> None:
        self.provenance = provenance
        self._critic = critic
        self._budget, self._packing, self._precision = batch_tokens, packing, precision

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a trajectory with turns has no tokens.
        """
        trajectories = [trajectory for group in groups for trajectory in group.trajectories]
        values = [np.zeros(0 if t.tokens is None else len(t.tokens.ids) + 1, np.float32) for t in trajectories]
        for number, positions, got in self._values(trajectories):
            values[number][positions] = got
        return [_annotations(t, of_boundaries) for t, of_boundaries in zip(trajectories, values, strict=True)]

    def _values(self, trajectories: Sequence[Trajectory]) -> Iterator[tuple[int, NDArray[np.int64], Any]]:
        """Index of a trajectory, positions in its token values, and the values."""
        import torch

        from creditflow.train.policy.batching import batches_of, split_by_row
        from creditflow.train.policy.network.options import autocast
        from creditflow.train.policy.samples import Row

        rows, positions = [], []
        for number, trajectory in enumerate(trajectories):
            if trajectory.tokens is None and trajectory.turns:
                raise AnnotationError(
                    f"trajectory {trajectory.trajectory_id!r} has no tokens: a critic values a language model's own "
                    "rollouts, recorded with their tokens"
                )
            for ids, target, position, pictures in _histories(trajectory.tokens):
                blank = np.zeros(len(target))
                rows.append(
                    Row(ids, target, blank, blank.astype(np.float32), blank.astype(np.int32), number, pictures=pictures)
                )
                positions.append(position)
        device = next(self._critic.head.parameters()).device
        decoder = self._critic.decoder
        was_training = decoder.training
        decoder.train()  # the code path of the update
        with torch.no_grad(), autocast(self._precision, device):
            for batch in batches_of(rows, self._budget, device, self._packing):
                for i, values in split_by_row(self._critic(batch), batch, rows):
                    yield rows[i].trajectory, positions[i], values
        decoder.train(was_training)


def _histories(
    tokens: Tokens | None,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], tuple[EncodedPicture, ...]]]:
    """Sequences to run: ids, the target positions whose history is valued, their indices in ``Tokens.values``, and pictures.

    One id is appended, so that the history of all tokens has a target position too; a causal model does not attend to it.
    """
    if tokens is None or not len(tokens.ids):
        return
    end = np.zeros(1, np.int32)
    n = len(tokens.ids)
    if not tokens.prompts:
        every = np.arange(1, n + 1)
        pictures = tuple(picture for turn in tokens.pictures for picture in turn)
        yield np.concatenate([tokens.ids, end]), every, every, pictures
        return
    for t, prompt in enumerate(tokens.prompts):
        start, stop = int(tokens.turn_offsets[t]), int(tokens.turn_offsets[t + 1])
        indices = np.arange(start, stop + (stop == n))
        if len(indices):
            ids = np.concatenate([prompt, tokens.ids[start:stop], end])
            pictures = tokens.pictures[t] if tokens.pictures else ()
            yield ids, indices - start + len(prompt), indices, pictures


def _annotations(trajectory: Trajectory, values: NDArray[np.float32]) -> Annotations:
    tokens = trajectory.tokens
    if tokens is None:
        return Annotations(boundaries(NAME, np.zeros(1)))
    first = np.minimum(np.maximum(tokens.turn_offsets[:-1], 0 if tokens.prompts else 1), len(tokens.ids))
    for t, written in enumerate(tokens.written()):
        if len(written):
            first[t] = written[0]
    return Annotations(
        boundaries(NAME, values[np.append(first, len(tokens.ids))].astype(np.float64)), tokens={NAME: values}
    )


def make(argument: str, context: Context) -> CriticAnnotator:
    """The annotator ``critic:DIR``."""
    settings = settings_of("critic", context, {"batch_tokens": 16384})
    require_torch()
    from creditflow.train.policy.critic import open_critic
    from creditflow.train.policy.network.options import pick_device

    critic = open_critic(argument, pick_device(context.device))
    return CriticAnnotator(
        critic, Provenance("critic", 1, {}, folder_digest(argument)), batch_tokens=settings["batch_tokens"]
    )
