"""The success model: a causal language model read at the ends of turns by a scalar head; its file and its predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json
from creditflow.train.annotate.success.encoding import Encoded, Encoder, TextConfig
from creditflow.train.policy.batching import plan
from creditflow.train.settings.reading import read_dataclass

__all__ = ["EpisodeBatch", "SuccessFile", "SuccessModel", "open_success", "predict_success", "save_success"]

FILE: Final = "creditflow_success.json"
HEAD: Final = "score.safetensors"
FORMAT_VERSION: Final = 3


class SuccessModel(torch.nn.Module):
    """A causal language model of ``transformers``, and a scalar head that computes z from the last token of a turn."""

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone
        parameter = next(backbone.parameters())
        self.score = torch.nn.Linear(backbone.config.hidden_size, 1, bias=False, device=parameter.device)
        torch.nn.init.zeros_(self.score.weight)  # the untrained model predicts 1/2 everywhere

    def logits(self, batch: EpisodeBatch) -> Any:
        """float32 (B, S): z at every turn end; undefined elsewhere."""
        hidden = self.backbone.get_decoder()(input_ids=batch.ids, use_cache=False).last_hidden_state
        odds = self.score(hidden[batch.rows, batch.ends].float())[:, 0]
        return torch.zeros(batch.present_mask.shape, device=odds.device).masked_scatter(batch.present_mask, odds)


@dataclass(frozen=True, kw_only=True)
class SuccessFile:
    """The description stored beside the weights.

    Attributes:
        kind: what z means: "paper", success; "hazard", the first error.
        text: how episodes become text.
        positions: longest episode in tokens; 0 for no limit.
    """

    kind: Literal["paper", "hazard"]
    text: TextConfig
    positions: int


def save_success(
    folder: str | Path, model: SuccessModel, tokenizer: Any, kind: Literal["paper", "hazard"], encoder: Encoder
) -> None:
    """Write backbone, tokenizer, head and description; the description last, so that an incomplete folder does not open."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = Path(folder)
    model.backbone.save_pretrained(path)
    tokenizer.save_pretrained(path)
    save_file({"weight": model.score.weight.detach().cpu().contiguous()}, path / HEAD)
    description = SuccessFile(kind=kind, text=encoder.config, positions=encoder.positions)
    data = {"format_version": FORMAT_VERSION, **asdict(description)}
    with atomic_writer(path / FILE) as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


def open_success(folder: str | Path, *, device: str = "auto") -> tuple[SuccessModel, Encoder, SuccessFile]:
    """The model of a folder that ``save_success`` wrote, with its encoder.

    Raises:
        DataError: not such a folder, a damaged one, or another format version.
    """
    path = Path(folder)
    if not (path / FILE).is_file():
        raise DataError(
            f"{path} is not a success model (no {FILE}); train one with kind: success_model, or, for a checkpoint of PiCA's "
            "released code, add --set released=scalar"
        )
    with loading(f"{path} is not a success model; train one with kind: success_model"):
        data = read_json(path / FILE)
        version = data.pop("format_version")
    if version != FORMAT_VERSION:
        raise DataError(f"{path}: format_version {version!r}, this version of creditflow reads {FORMAT_VERSION}")
    try:
        file = read_dataclass(SuccessFile, data, FILE)
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error
    backbone, tokenizer = open_pretrained(str(path), device=device)
    encoder = Encoder(tokenizer, file.text, file.positions)
    model = SuccessModel(backbone)
    with loading(f"{path}: its head cannot be read"):
        model.score.load_state_dict(load_file(path / HEAD))
    return model.eval(), encoder, file


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
            logits = model.logits(batch).double().cpu().numpy()
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
