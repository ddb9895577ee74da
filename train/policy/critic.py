"""The critic: a value head on the policy's last hidden state, or on a network of its own.

V of a history is read from the hidden state of its last token, from which the next token is sampled too: the value
before the first token of a turn is the value of the state in which the model acted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from creditflow.agents.models.lora import has_adapter, merged_weights
from creditflow.agents.models.vision import text_config
from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.reading.model_folders import check_model_files
from creditflow.train.policy.batching import MicroBatch
from creditflow.train.policy.logprobs import hidden_before
from creditflow.train.policy.losses import value_losses
from creditflow.train.policy.samples import Row
from creditflow.train.settings.schema import CriticConfig

__all__ = ["Critic", "count_value_targets", "explained_variance", "open_critic", "save_critic"]

HEAD_FILE, DESCRIPTION_FILE, VERSION = "value_head.safetensors", "creditflow_critic.json", 1


class Critic(torch.nn.Module):
    """The value function: a linear head on a decoder.

    Args:
        config: settings of the critic.
        decoder: a model of ``transformers`` without output layer; a separate critic trains a copy of it.

    Attributes:
        shared: whether the decoder is the policy's own, whose weights are not among this module's.
    """

    def __init__(self, config: CriticConfig, decoder: Any) -> None:
        super().__init__()
        first = next(decoder.parameters())
        self.config = config
        self.shared = config.kind == "shared"
        self.trunk = None if self.shared else copy.deepcopy(decoder)
        self._shared_decoder = [decoder] if self.shared else []  # in a list: not a submodule
        self.head = torch.nn.Linear(text_config(decoder).hidden_size, 1, device=first.device, dtype=torch.float32)
        torch.nn.init.zeros_(self.head.weight)  # every value is 0 at first, whatever the seed
        torch.nn.init.zeros_(self.head.bias)

    @property
    def decoder(self) -> Any:
        """The decoder that computes the hidden states."""
        return self._shared_decoder[0] if self.trunk is None else self.trunk

    def forward(self, batch: MicroBatch, before: Any | None = None) -> Any:
        """float32 (N,): the value of the history before every target token.

        Args:
            batch: the histories.
            before: the decoder's ``hidden_before``, if it was computed already.
        """
        states = hidden_before(self.decoder, batch) if before is None else before
        return batch.by_target(self.head(states.float())[:, 0])

    def loss(self, batch: MicroBatch, rows: Sequence[Row], count: int, before: Any | None = None) -> dict[str, Any]:
        """The summed value loss of one micro-batch, divided by ``count``, the number of value targets of the minibatch.

        Returns:
            ``loss`` with gradient, and ``clip_fraction``, the part of the targets whose loss was clipped.
        """
        device = batch.ids.device

        def column(name: str) -> NDArray[np.float64]:
            return np.concatenate([getattr(rows[i], name) for i in batch.rows])

        targets, old_values = column("value_target"), column("value_old")
        has_target = np.isfinite(targets)
        target = torch.from_numpy(targets[has_target].astype(np.float32)).to(device)
        old = torch.from_numpy(old_values[has_target].astype(np.float32)).to(device)
        losses, clipped = value_losses(
            self(batch, before)[torch.from_numpy(has_target).to(device)], old, target, self.config.clip
        )
        return {"loss": losses.sum() / count, "clip_fraction": float(clipped.sum()) / count}


def count_value_targets(rows: Sequence[Row]) -> int:
    """Number of tokens with a value target."""
    return sum(int(np.isfinite(row.value_target).sum()) for row in rows if row.value_target is not None)


def explained_variance(rows: Sequence[Row]) -> float:
    """1 − var(R − V) / var(R) over the value targets; 0 for a constant critic, nan if all targets are equal."""
    target = np.concatenate([row.value_target for row in rows if row.value_target is not None] or [np.zeros(0)])
    old = np.concatenate([row.value_old for row in rows if row.value_old is not None] or [np.zeros(0)])
    has_target = np.isfinite(target)
    if not has_target.any():
        return float("nan")
    variance = float(target[has_target].var())
    unexplained = float((target[has_target] - old[has_target]).var())
    return 1.0 - unexplained / variance if variance > 0.0 else float("nan")


def save_critic(critic: Critic, folder: Path) -> None:
    """Write a folder that ``critic:DIR`` opens."""
    decoder = critic.decoder
    decoder.save_pretrained(folder, state_dict=merged_weights(decoder) if has_adapter(decoder) else None)
    save_file({name: p.detach().contiguous() for name, p in critic.head.state_dict().items()}, folder / HEAD_FILE)
    with atomic_writer(folder / DESCRIPTION_FILE) as stream:
        stream.write(json.dumps({"format_version": VERSION, "value": "value.critic"}) + "\n")


def open_critic(path: str | Path, device: Any) -> Critic:
    """Open the critic of a folder.

    Raises:
        DataError: not a folder that ``save_critic`` wrote.
    """
    from transformers import AutoModel

    folder = Path(path)
    if not (folder / DESCRIPTION_FILE).is_file():
        raise DataError(f"{folder} is not a critic that a training run wrote: it has no {DESCRIPTION_FILE}")
    description = read_json(folder / DESCRIPTION_FILE)
    version = description.get("format_version") if isinstance(description, dict) else None
    if version != VERSION:
        raise DataError(f"{folder}: format_version {short_repr(version)}, expected {VERSION}")
    check_model_files(folder)
    with loading(f"{folder}: is not a critic that a training run wrote"):
        decoder = AutoModel.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, attn_implementation="sdpa"
        ).to(device)
        critic = Critic(CriticConfig(kind="shared"), decoder)
        critic.head.load_state_dict(load_file(folder / HEAD_FILE))
    critic.to(device).eval()
    return critic
