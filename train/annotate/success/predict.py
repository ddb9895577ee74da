"""Run a success model over encoded episodes: batches by token budget, probabilities at turn ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.annotate.success.encoding import Encoded
from creditflow.train.annotate.success.model import SuccessModel
from creditflow.train.policy.batching import plan

__all__ = ["EpisodeBatch", "predict_success", "read_logits"]


class EpisodeBatch:
    """Some episodes, of at least one turn each, as tensors.

    Attributes:
        ids: int64 (B, L), right-padded with 0, which no real position attends to in a causal model.
        rows, ends: int64 (n,), rows and columns of the turn ends, episode by episode.
        present_mask: bool (B, S), which of the padded (B, S) readings exist.
    """

    def __init__(self, members: Sequence[Encoded], device: Any) -> None:
        length, most = max(map(len, members)), max(len(member.ends) for member in members)
        ids = np.zeros((len(members), length), np.int64)
        present_mask = np.zeros((len(members), most), np.bool_)
        for row, member in enumerate(members):
            ids[row, : len(member)] = member.ids
            present_mask[row, : len(member.ends)] = True
        rows = np.repeat(np.arange(len(members)), [len(member.ends) for member in members])
        self.ids = torch.from_numpy(ids).to(device)
        self.rows = torch.from_numpy(rows).to(device)
        self.ends = torch.from_numpy(np.concatenate([member.ends for member in members])).to(device)
        self.present_mask = torch.from_numpy(present_mask).to(device)


def read_logits(model: SuccessModel, batch: EpisodeBatch, hidden: Any = None) -> Any:
    """float32 (B, S): z at every turn end; undefined elsewhere."""
    hidden = model.hidden(batch.ids) if hidden is None else hidden
    return model.read(hidden, batch.rows, batch.ends, batch.present_mask)


def predict_success(
    model: SuccessModel, episodes: Sequence[Encoded], kind: Literal["paper", "hazard"], *, batch_tokens: int = 16384
) -> list[NDArray[np.float64]]:
    """f(0), …, f(T) of every episode with T turns; for a hazard model f(0) = 1 and f(t) = Π(1 − h).

    Episodes without turns get an empty array.
    """
    out: list[NDArray[np.float64]] = [np.zeros(0)] * len(episodes)
    nonempty = [i for i, episode in enumerate(episodes) if len(episode.ends)]
    device = next(model.parameters()).device
    with torch.no_grad():
        for chosen in plan([len(episodes[i]) for i in nonempty], batch_tokens):
            members = [episodes[nonempty[i]] for i in chosen]
            batch = EpisodeBatch(members, device)
            logits = read_logits(model, batch).double().cpu().numpy()
            for row, i in enumerate(chosen):
                member = members[row]
                out[nonempty[i]] = _success(logits[row, : len(member.ends)], kind)[member.shared :]
    return out


def _success(logits: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # NaN stays NaN, and the caller rejects it
        if kind == "paper":
            return np.exp(-np.logaddexp(0.0, -logits))
        survive: NDArray[np.float64] = np.exp(-np.cumsum(np.logaddexp(0.0, logits[1:])))
    return np.concatenate([[1.0], survive])
