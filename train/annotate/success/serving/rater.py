"""The model behind ``serve-reward``: a success model evaluated at the placeholders of a text or at the ends of turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.language_model.text_ids import text_ids
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.encoding import Encoded, EpisodeTooLongError
from creditflow.train.annotate.success.model import open_success
from creditflow.train.annotate.success.predict import EpisodeBatch, predict_success, read_logits
from creditflow.train.annotate.success.serving.released_format import PLACEHOLDER
from creditflow.train.policy.batching import plan
from creditflow.train.run.digest import folder_digest
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["LocalRater"]


class LocalRater:
    """A ``Rater`` over a folder that ``creditflow train`` with kind: success_model wrote.

    A text is evaluated at its placeholders: at the placeholder itself if it is one token of the tokenizer, as with the
    released settings, else at the last token before it.

    Args:
        folder: folder of the model.
        device: "auto", "cpu", "cuda", …
        placeholder: placeholder that marks the end of a step in a text.
        batch_tokens: token budget of a forward pass.

    Raises:
        DataError: not such a folder, or a damaged one.
    """

    def __init__(
        self, folder: str, *, device: str = "auto", placeholder: str = PLACEHOLDER, batch_tokens: int = 16384
    ) -> None:
        self._model, self._encoder, file = open_success(folder, device=device)
        self._kind, self._budget, self._placeholder = file.kind, batch_tokens, placeholder
        self._placeholder_id = self._encoder.tokenizer.get_vocab().get(placeholder)
        self.about: Mapping[str, Any] = {
            "kind": file.kind,
            "model": folder_digest(folder),
            "parameters": {"kind": file.kind, "read": file.text.read, "template": file.template},
            "placeholder": placeholder,
        }

    def read_text(self, text: str) -> Encoded:
        """Encode a text up to its last placeholder.

        Raises:
            DataError: no placeholder, no text before the first, too many tokens, or a model that needs turns.
        """
        pieces = text.split(self._placeholder)
        if len(pieces) < 2:
            raise DataError(f"the text has no placeholder {self._placeholder!r}: it marks the end of a step")
        if self._encoder.config.names != "words":
            raise DataError(
                "this model anonymises names by the turn of their first occurrence, and a text has no turns: use /success"
            )
        tokenizer = self._encoder.tokenizer
        ids: list[int] = []
        ends = []
        for piece in pieces[:-1]:
            ids += text_ids(tokenizer, [piece])[0]
            ids += [] if self._placeholder_id is None else [self._placeholder_id]
            if not ids:
                raise DataError("the text begins with a placeholder: there is no step before it")
            ends.append(len(ids) - 1)
        most = self._encoder.positions
        if most and len(ids) > most:
            raise EpisodeTooLongError(f"the text has {len(ids)} tokens, the model takes at most {most}")
        return Encoded(np.array(ids, np.int32), np.array(ends, np.int64))

    def read_turns(self, turns: Sequence[Turn]) -> Encoded:
        """An episode as ``annotate --with success:DIR`` encodes it."""
        return self._encoder.encode(turns, "the episode")

    def hazards(self, read: Sequence[Encoded]) -> list[NDArray[np.float64]]:
        """h = σ(z) at every placeholder or turn end."""
        out = [np.zeros(0)] * len(read)
        device = next(self._model.parameters()).device
        with torch.no_grad():
            for chosen in plan([len(episode) for episode in read], self._budget):
                logits = (
                    read_logits(self._model, EpisodeBatch([read[i] for i in chosen], device)).double().cpu().numpy()
                )
                for row, i in enumerate(chosen):
                    out[i] = np.exp(-np.logaddexp(0.0, -logits[row, : len(read[i].ends)]))
        return out

    def success(self, read: Sequence[Encoded]) -> list[NDArray[np.float64]]:
        """f(0), …, f(T) of every episode; empty for one without turns."""
        return predict_success(self._model, read, self._kind, batch_tokens=self._budget)
