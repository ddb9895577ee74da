"""The success model: a causal language model with one number read at chosen places; its folder, and opening it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from creditflow.agents.pretrained import open_pretrained
from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate.success_encoding import TEMPLATE_VERSION, Encoder, TextConfig
from creditflow.train.config import read_dataclass

__all__ = ["SuccessFile", "SuccessModel", "open_success", "save_success"]

FILE: Final = "creditflow_success.json"
HEAD: Final = "score.safetensors"
FORMAT_VERSION: Final = 1


class SuccessModel(torch.nn.Module):  # type: ignore[misc]  # torch is Any where it is not installed
    """Backbone and head.

    Args:
        backbone: a causal language model of ``transformers``.
    """

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone
        parameter = next(backbone.parameters())
        self.score = torch.nn.Linear(backbone.config.hidden_size, 1, bias=False, device=parameter.device)
        torch.nn.init.zeros_(self.score.weight)  # the untrained model says 1/2 everywhere

    def hidden(self, ids: Any) -> Any:
        """Last hidden states (B, L, d) of right-padded ids (B, L)."""
        return self.backbone.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state

    def read(self, hidden: Any, rows: Any, places: Any) -> Any:
        """float32 (n,): the head's numbers at (row, place) pairs."""
        return self.score(hidden[rows, places].float())[:, 0]


@dataclass(frozen=True, kw_only=True)
class SuccessFile:
    """What the folder says beside the weights.

    Attributes:
        kind: what z means: "paper", success; "hazard", the first error.
        text: what the model is shown.
        template: version and digest of how texts become ids and places.
        positions: the longest episode it takes.
        words: that keep their form where names are symbols.
    """

    kind: Literal["paper", "hazard"]
    text: TextConfig
    template_version: int
    template: str
    positions: int
    words: tuple[str, ...] = ()


def save_success(folder: str | Path, model: SuccessModel, tokenizer: Any, kind: str, encoder: Encoder) -> None:
    """Write backbone, tokenizer, head and description; the description last, so that a torn folder does not open."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = Path(folder)
    model.backbone.save_pretrained(path)
    tokenizer.save_pretrained(path)
    save_file({"weight": model.score.weight.detach().cpu().contiguous()}, path / HEAD)
    data = {
        "format_version": FORMAT_VERSION, "kind": kind, "text": asdict(encoder.config),
        "template_version": TEMPLATE_VERSION, "template": encoder.digest, "positions": encoder.positions, "words": list(encoder.words),
    }  # fmt: skip
    with atomic_writer(path / FILE) as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


def open_success(folder: str | Path, *, device: str = "auto") -> tuple[SuccessModel, Encoder, SuccessFile]:
    """The model of a folder that ``save_success`` wrote, with its encoder.

    Raises:
        DataError: not such a folder, a damaged one, another format version; or its texts are now encoded otherwise
            than when it was trained (another template version, a changed tokenizer).
    """
    path = Path(folder)
    try:
        data = json.loads((path / FILE).read_text(encoding="ascii"))
        version = data.pop("format_version")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path}: is not a success model ({FILE}: {error}); train one with kind: success_model"
        ) from error
    if version != FORMAT_VERSION:
        raise DataError(f"{path}: format_version {version!r}, this version of creditflow reads {FORMAT_VERSION}")
    try:
        file = read_dataclass(SuccessFile, data, FILE)
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error
    backbone, tokenizer = open_pretrained(str(path), device=device)
    encoder = Encoder(tokenizer, file.text, file.positions, file.words)
    if file.template_version != TEMPLATE_VERSION or encoder.digest != file.template:
        raise DataError(
            f"{path}: the model was trained on template {file.template_version}/{file.template}, texts are now encoded as "
            f"{TEMPLATE_VERSION}/{encoder.digest}: its places would not be where it learned to read; train it anew"
        )
    model = SuccessModel(backbone)
    try:
        weights = load_file(path / HEAD)
        model.score.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(f"{path}: its head cannot be read: {error}") from error
    return model.eval(), encoder, file
