"""Tokens of a log with their pictures again: read from the folder beside it, and encoded for a model as when they were sampled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from creditflow.agents.models.pictures import PictureEncoder
from creditflow.agents.models.vision import check_picture_tokens
from creditflow.envs.errors import DataError
from creditflow.wrappers.records.picture_folder import PictureFolder
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["with_pictures"]


def with_pictures(trajectory: Trajectory, folder: PictureFolder, encoder: PictureEncoder) -> Trajectory:
    """A trajectory whose tokens carry the pictures that its turns name, so that it can be trained on and scored.

    Args:
        trajectory: of a log; without tokens, or without pictures in its turns, it is returned as it is.
        folder: the pictures beside the log.
        encoder: of the model whose tokens these are.

    Raises:
        DataError: a picture is missing or damaged, or the tokens do not have the image tokens of these pictures: they are of
            another model, or of a branch, whose first pictures are in its parent's log lines.
    """
    tokens = trajectory.tokens
    if tokens is None or not any(turn.images for turn in trajectory.turns):
        return trajectory

    def encoded(turn: Turn) -> tuple[EncodedPicture, ...]:
        return tuple(encoder.encode(folder.read(name).pixels) for name in turn.images)

    pictures = tuple(map(encoded, trajectory.turns))
    all_ids = np.concatenate(tokens.prompts) if tokens.prompts else tokens.ids
    try:
        check_picture_tokens(all_ids, [picture for turn in pictures for picture in turn])
    except DataError as error:
        raise DataError(f"trajectory {trajectory.trajectory_id!r}: {error}") from error
    return replace(trajectory, tokens=replace(tokens, pictures=pictures))
