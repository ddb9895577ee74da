"""Success models that are read by the tokens + and -, and checkpoints of PiCA's released code."""

from __future__ import annotations

from collections.abc import Callable
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
from creditflow.train.annotate.success.model import open_success, predict_success
from creditflow.train.annotate.success.released import text_with_placeholders
from creditflow.train.annotate.success.training import SuccessTrainer, evaluate_success

MARK = "<|end|>"  # a token of the toy tokenizer, in the place of the released one


def logits_after(folder: Path, ids: Any) -> Any:
    """The language model's own logits (L, V)."""
    model, _ = open_pretrained(str(folder), device="cpu")
    with torch.no_grad():
        return model(input_ids=torch.as_tensor(np.asarray(ids, np.int64))[None]).logits[0].double()


@pytest.mark.parametrize("kind", ["paper", "hazard"])
def test_the_probability_is_the_softmax_over_the_two_tokens(
    kind: Any, data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    """f is the share of +; h is the share of -, and f(t) the product of the shares of +."""
    trainer_of(data, "head=tokens", f"loss.kind={kind}").run()
    folder = Path(data["out"]) / "model"
    assert not (folder / "score.safetensors").exists()
    model, encoder, _ = open_success(folder, device="cpu")
    episode = encoder.encode_member(episodes()[0], 0)
    plus, minus = (encoder.tokenizer.get_vocab()[sign] for sign in "+-")
    share = torch.softmax(logits_after(folder, episode.ids)[episode.ends][:, [plus, minus]], 1)[:, 0].numpy()
    wanted = share if kind == "paper" else np.concatenate([[1.0], np.cumprod(share[1:])])
    np.testing.assert_allclose(predict_success(model, [episode], kind)[0], wanted, atol=1e-6)


def test_two_tokens_learn_what_a_scalar_head_learns(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    overrides = ("steps=300", "batch=12", "optimizer.lr=5e-3", "data.valid=0.0", "loss.non_pivot_weight=1.0")
    trainer = trainer_of(data, "head=tokens", *overrides)
    trainer.run()
    assert evaluate_success(trainer.model, trainer.train, "paper", 4096)["pivot_auc"] > 0.9


@pytest.mark.parametrize("head", ["scalar", "tokens"])
def test_a_released_checkpoint_is_read_at_its_placeholders(head: str, folder: Path) -> None:
    released = folder.parent / "released"
    folder.rename(released)
    for name in ("creditflow_success.json", "score.safetensors"):
        (released / name).unlink()
    weight = torch.linspace(-1.0, 1.0, 64)[None]
    tensors = load_file(released / "model.safetensors")
    save_file(
        tensors | ({"score.weight": weight} if head == "scalar" else {}),
        released / "model.safetensors",
        {"format": "pt"},
    )
    group = episodes()[0]
    settings = {"released": head, "placeholder": MARK}
    [rated] = annotate([group], make_annotator(f"success:{released}", Context(settings, device="cpu")))
    member = rated.trajectories[0]

    model, tokenizer = open_pretrained(str(released), device="cpu")
    mark = tokenizer.get_vocab()[MARK]
    ids: list[int] = []
    for piece in text_with_placeholders(None, member.turns, MARK, "t").split(MARK)[:-1]:
        ids += [*tokenizer(piece, add_special_tokens=False)["input_ids"], mark]
    ends = np.flatnonzero(np.array(ids) == mark)
    if head == "scalar":
        with torch.no_grad():
            hidden = model.get_decoder()(input_ids=torch.tensor([ids])).last_hidden_state[0, ends]
        hazard = torch.sigmoid(hidden @ weight[0]).double().numpy()
    else:
        signs = [tokenizer.get_vocab()[sign] for sign in "+-"]
        hazard = torch.softmax(logits_after(released, ids)[ends][:, signs], 1)[:, 1].numpy()
    after = [turn.values["value.pica.next"] for turn in member.turns]
    np.testing.assert_allclose(after, np.cumprod(1.0 - hazard), atol=1e-6)
    assert member.turns[0].values["value.pica"] == 1.0


def test_a_checkpoint_without_what_was_named_is_refused(folder: Path) -> None:
    def rater(**settings: Any) -> Any:
        return make_annotator(f"success:{folder}", Context(settings, device="cpu"))

    with pytest.raises(DataError, match=r"has no weight score\.weight"):
        rater(released="scalar", placeholder=MARK)
    with pytest.raises(DataError, match="is no token of this model's tokenizer"):
        rater(released="tokens", placeholder="<|step|>")
    with pytest.raises(ConfigError, match="did you mean 'tokens'"):
        rater(released="token")
    (folder / "creditflow_success.json").unlink()
    with pytest.raises(DataError, match="--set released=scalar"):
        rater()
