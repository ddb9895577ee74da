"""``success:DIR``: a success model's probability of success before and after every turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.errors import check_name
from creditflow.train.annotate.base import (
    AnnotationError,
    Annotations,
    Annotator,
    Provenance,
    TurnAnnotator,
    boundaries,
    members_of,
)
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.success.released import PLACEHOLDER, open_released
from creditflow.train.run.digest import folder_digest
from creditflow.wrappers.records.group import Group

__all__ = ["SuccessAnnotator", "make"]

NAME = "value.pica"


class SuccessAnnotator(TurnAnnotator):
    """Writes ``value.pica`` (f before a turn; before the first, the prior) and ``value.pica.next`` (f after it).

    Args:
        model, encoder: a ``SuccessModel`` and the encoder of its texts.
        kind: meaning of the logit, "paper" or "hazard".
        provenance: provenance of its values.
        batch_tokens: token budget of a forward pass.
    """

    turn_names = (NAME, f"{NAME}.next")

    def __init__(
        self,
        model: Any,
        encoder: Any,
        kind: Literal["paper", "hazard"],
        provenance: Provenance,
        *,
        batch_tokens: int = 16384,
    ) -> None:
        self.provenance = provenance
        self._model, self._encoder, self._kind, self._budget = model, encoder, kind, batch_tokens

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a log without texts, an episode too long for the model, or a model that outputs a non-finite value.
        """
        from creditflow.train.annotate.success.model import predict_success

        members = members_of(groups)
        episodes = [self._encoder.encode_member(group, i) for group, i in members]
        annotations = []
        for (group, i), success in zip(
            members, predict_success(self._model, episodes, self._kind, batch_tokens=self._budget), strict=True
        ):
            member = group.trajectories[i]
            wrong = np.flatnonzero(~np.isfinite(success))
            if len(wrong):
                raise AnnotationError(
                    f"{self.provenance.annotator}: group {group.group_id!r}, trajectory {member.trajectory_id!r}: the model "
                    f"predicts {success[wrong[0]]} after turn {wrong[0]} of {len(success) - 1}; are its weights damaged?"
                )
            annotations.append(Annotations(boundaries(NAME, success if member.turns else np.zeros(1))))
        return annotations


def make(argument: str, context: Context) -> Annotator:
    """The annotator ``success:DIR``; DIR is what ``creditflow train`` with kind: success_model wrote to ``model/``.

    With the setting ``released=scalar`` DIR is a checkpoint of PiCA's released code, whose head is one number a place.
    """
    settings = settings_of("success", context, {"batch_tokens": 16384, "released": "", "placeholder": PLACEHOLDER})
    require_torch()
    released = settings["released"]
    if released:
        check_name("head of a released success model (setting released)", released, ("scalar",))
        model, released_encoder = open_released(argument, device=context.device, placeholder=settings["placeholder"])
        parameters = {"kind": "hazard", "released": released, "placeholder": settings["placeholder"]}
        provenance = Provenance("success", 1, parameters, folder_digest(argument))
        return SuccessAnnotator(model, released_encoder, "hazard", provenance, batch_tokens=settings["batch_tokens"])
    from creditflow.train.annotate.success.model import open_success

    model, encoder, file = open_success(argument, device=context.device)
    parameters = {"kind": file.kind, "read": file.text.read}
    provenance = Provenance("success", 1, parameters, folder_digest(argument))
    return SuccessAnnotator(model, encoder, file.kind, provenance, batch_tokens=settings["batch_tokens"])
