"""What ``serve-reward`` rates with: a success model's folder, read at placeholders of a text or at ends of turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.text.plain_text import plain_text
from creditflow.train.annotate.digest import folder_digest
from creditflow.train.annotate.success.encoding import Encoded, EpisodeTooLongError
from creditflow.train.annotate.success.model import open_success
from creditflow.train.annotate.success.predict import PlaceBatch, predict_success, read_logits
from creditflow.train.annotate.success.text import PLACEHOLDER
from creditflow.train.policy.batching import plan
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["LocalRater"]


class LocalRater:
    """A ``Rater`` over a folder that ``creditflow train`` with kind: success_model wrote.

    A text is read at its placeholders. Where the tokenizer knows the placeholder as one token, as with the released
    settings, it stays in the text and the number is read at it; else at the last token before it.

    Args:
        folder: of the model.
        device: "auto", "cpu", "cuda", …
        placeholder: what marks the end of a step in a text.
        batch_tokens: of forward passes.

    Raises:
        DataError: not such a folder, or a damaged one.
    """

    def __init__(
        self, folder: str, *, device: str = "auto", placeholder: str = PLACEHOLDER, batch_tokens: int = 16384
    ) -> None:
        self._model, self._encoder, file = open_success(folder, device=device)
        self._kind, self._budget, self._placeholder = file.kind, batch_tokens, placeholder
        self._mark = self._encoder.tokenizer.get_vocab().get(placeholder)
        self.about: Mapping[str, Any] = {
            "kind": file.kind,
            "model": folder_digest(folder),
            "parameters": {"kind": file.kind, "read": file.text.read, "template": file.template},
            "placeholder": placeholder,
        }

    def read_text(self, text: str) -> Encoded:
        """Ids up to the last placeholder, and the places of all.

        Raises:
            DataError: no placeholder, nothing before the first, more tokens than the model takes, or a model that needs turns.
        """
        pieces = text.split(self._placeholder)
        if len(pieces) < 2:
            raise DataError(f"the text has no placeholder {self._placeholder!r}: nothing says where a step ends")
        if self._encoder.config.names != "words":
            raise DataError(
                "this model is shown names by the turn they first stood in, and a text has no turns: ask /success"
            )
        tokenizer = self._encoder.tokenizer
        ids: list[int] = []
        places = []
        for piece in pieces[:-1]:
            ids += tokenizer.encode(plain_text(piece), add_special_tokens=False)
            ids += [] if self._mark is None else [self._mark]
            if not ids:
                raise DataError("the text begins with a placeholder: there is no step before it")
            places.append(len(ids) - 1)
        most = self._encoder.positions
        if most and len(ids) > most:
            raise EpisodeTooLongError(f"the text has {len(ids)} tokens, the model takes {most}")
        return Encoded(np.array(ids, np.int32), np.array(places, np.int64))

    def read_turns(self, turns: Sequence[Turn]) -> Encoded:
        """An episode as ``annotate --with success:DIR`` encodes it."""
        return self._encoder.encode(turns, "the episode")

    def hazards(self, read: Sequence[Encoded]) -> list[NDArray[np.float64]]:
        """h = 1 / (1 + exp(−z)) at every place."""
        out = [np.zeros(0)] * len(read)
        device = next(self._model.parameters()).device
        with torch.no_grad():
            for chosen in plan([len(one) for one in read], self._budget):
                logits = read_logits(self._model, PlaceBatch([read[i] for i in chosen], device)).double().cpu().numpy()
                for row, i in enumerate(chosen):
                    out[i] = np.exp(-np.logaddexp(0.0, -logits[row, : len(read[i].places)]))
        return out

    def success(self, read: Sequence[Encoded]) -> list[NDArray[np.float64]]:
        """f(0), …, f(T) of every episode; empty for one without turns."""
        return predict_success(self._model, read, self._kind, batch_tokens=self._budget)
