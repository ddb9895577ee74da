"""The success model: a causal language model with one number read at chosen places; its folder, and opening it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors.torch import load_file, save_file

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json
from creditflow.train.annotate.success.encoding import TEMPLATE_VERSION, Encoder, TextConfig
from creditflow.train.settings.reading import read_dataclass

__all__ = ["GAIN", "SuccessFile", "SuccessModel", "open_success", "save_success"]

FILE: Final = "creditflow_success.json"
HEAD: Final = "score.safetensors"
FORMAT_VERSION: Final = 1
GAIN: Final = 12.0  # of the mean over a turn's tokens, in which a telling one is one of many


class SuccessModel(torch.nn.Module):  # type: ignore[misc]  # torch is Any where it is not installed
    """Backbone and head.

    Args:
        backbone: a causal language model of ``transformers``.
        head: "place": z is read from the last token of a turn. "turns": the mean over a turn's tokens says by how much
            z rises, and z is the sum up to the turn.

    Attributes:
        calibration: a, b of the log odds a·z + b that are said in the end.
    """

    def __init__(self, backbone: Any, head: Literal["place", "turns"] = "place") -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.calibration = (1.0, 0.0)
        parameter = next(backbone.parameters())
        self.score = torch.nn.Linear(backbone.config.hidden_size, 1, bias=False, device=parameter.device)
        torch.nn.init.zeros_(self.score.weight)  # the untrained model says 1/2 everywhere

    def hidden(self, ids: Any) -> Any:
        """Last hidden states (B, L, d) of right-padded ids (B, L)."""
        return self.backbone.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state

    def read(self, hidden: Any, rows: Any, places: Any, there: Any) -> Any:
        """float32 (B, S): z at every place, anything where there is none.

        Args:
            hidden: (B, L, d).
            rows, places: int64 (n,), where to read, row by row and in ascending order within a row.
            there: bool (B, S), which of the padded readings exist.
        """
        at = hidden[rows, places].float()
        if self.head == "turns":
            sums = hidden.float().cumsum(1)[rows, places]
            first = torch.ones_like(rows, dtype=torch.bool)
            first[1:] = rows[1:] != rows[:-1]
            before = sums.roll(1, 0) * ~first[:, None]
            start = torch.where(first, -1, places.roll(1))
            at = (sums - before) / (places - start)[:, None]
        z = torch.zeros(there.shape, device=at.device).masked_scatter(there, self.score(at)[:, 0])
        if self.head == "turns":
            z = GAIN * z.cumsum(1)
        return self.calibration[0] * z + self.calibration[1]


@dataclass(frozen=True, kw_only=True)
class SuccessFile:
    """What the folder says beside the weights.

    Attributes:
        kind: what z means: "paper", success; "hazard", the first error.
        text: what the model is shown.
        template: version and digest of how texts become ids and places.
        positions: the longest episode it takes.
        words: that are no names, where names are written by origin.
        head, calibration: of ``SuccessModel``.
    """

    kind: Literal["paper", "hazard"]
    text: TextConfig
    template_version: int
    template: str
    positions: int
    words: tuple[str, ...] = ()
    head: Literal["place", "turns"] = "place"
    calibration: tuple[float, ...] = (1.0, 0.0)


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
        "head": model.head, "calibration": list(model.calibration),
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
    with loading(f"{path}: is not a success model; train one with kind: success_model"):
        data = read_json(path / FILE)
        version = data.pop("format_version")
    if version != FORMAT_VERSION:
        raise DataError(f"{path}: format_version {version!r}, this version of creditflow reads {FORMAT_VERSION}")
    try:
        file = read_dataclass(SuccessFile, data, FILE)
        if len(file.calibration) != 2:
            raise ConfigError(f"calibration: two numbers, not {len(file.calibration)}")
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error
    backbone, tokenizer = open_pretrained(str(path), device=device)
    encoder = Encoder(tokenizer, file.text, file.positions, file.words)
    if file.template_version != TEMPLATE_VERSION or encoder.digest != file.template:
        raise DataError(
            f"{path}: the model was trained on template {file.template_version}/{file.template}, texts are now encoded as "
            f"{TEMPLATE_VERSION}/{encoder.digest}: its places would not be where it learned to read; train it anew"
        )
    model = SuccessModel(backbone, file.head)
    with loading(f"{path}: its head cannot be read"):
        model.score.load_state_dict(load_file(path / HEAD))
    model.calibration = file.calibration[0], file.calibration[1]
    return model.eval(), encoder, file
