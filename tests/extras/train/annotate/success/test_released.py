"""Checkpoints of PiCA's released code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.look_episodes import episodes
from safetensors.torch import load_file, save_file

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate import annotate, make_annotator
from creditflow.train.annotate.registry import Context
from creditflow.train.annotate.success.released import text_with_placeholders

MARK = "<|end|>"  # a token of the toy tokenizer, in the place of the released one


def test_a_released_checkpoint_is_read_at_its_placeholders(folder: Path) -> None:
    released = folder.parent / "released"
    folder.rename(released)
    for name in ("creditflow_success.json", "score.safetensors"):
        (released / name).unlink()
    weight = torch.linspace(-1.0, 1.0, 64)[None]
    tensors = load_file(released / "model.safetensors")
    save_file(tensors | {"score.weight": weight}, released / "model.safetensors", {"format": "pt"})
    group = episodes()[0]
    settings = {"released": "scalar", "placeholder": MARK}
    [rated] = annotate([group], make_annotator(f"success:{released}", Context(settings, device="cpu")))
    member = rated.trajectories[0]

    model, tokenizer = open_pretrained(str(released), device="cpu")
    mark = tokenizer.get_vocab()[MARK]
    ids: list[int] = []
    for piece in text_with_placeholders(None, member.turns, MARK, "t").split(MARK)[:-1]:
        ids += [*tokenizer(piece, add_special_tokens=False)["input_ids"], mark]
    ends = np.flatnonzero(np.array(ids) == mark)
    with torch.no_grad():
        hidden = model.get_decoder()(input_ids=torch.tensor([ids])).last_hidden_state[0, ends]
    hazard = torch.sigmoid(hidden @ weight[0]).double().numpy()
    after = [turn.values["value.pica.next"] for turn in member.turns]
    np.testing.assert_allclose(after, np.cumprod(1.0 - hazard), atol=1e-6)
    assert member.turns[0].values["value.pica"] == 1.0


def test_a_checkpoint_without_what_was_named_is_refused(folder: Path) -> None:
    def rater(**settings: Any) -> Any:
        return make_annotator(f"success:{folder}", Context(settings, device="cpu"))

    with pytest.raises(DataError, match=r"has no weight score\.weight"):
        rater(released="scalar", placeholder=MARK)
    with pytest.raises(DataError, match="is no token of this model's tokenizer"):
        rater(released="scalar", placeholder="<|step|>")
    with pytest.raises(ConfigError, match="did you mean 'scalar'"):
        rater(released="scaler")
    (folder / "creditflow_success.json").unlink()
    with pytest.raises(DataError, match="--set released=scalar"):
        rater()
