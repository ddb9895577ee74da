"""The folder of an untrained success model: the format is right, the predictions are arbitrary."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal


def success_folder(path: Path, kind: Literal["paper", "hazard"] = "paper", *, positions: int = 96, **text: Any) -> str:
    """Save an untrained model whose head has random weights; return the folder."""
    import torch

    from creditflow.train.annotate.success.encoding import Encoder, TextConfig
    from creditflow.train.annotate.success.model import SuccessModel, save_success
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    sizes = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=280, positions=positions, init=0.1
    )
    tokenizer = build_tokenizer(["find ash birch cedar elm look seen"] * 4, sizes)
    model = SuccessModel(build_model(sizes, tokenizer, seed=1, device=torch.device("cpu")))
    with torch.no_grad():
        model.score.weight.normal_(generator=torch.Generator().manual_seed(0))
    save_success(path, model, tokenizer, kind, Encoder(tokenizer, TextConfig(**text), positions))
    return str(path)
