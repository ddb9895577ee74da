"""Does an engine read a picture as the trained model does? Asked after every push of a vision-language model's weights.

The probe of a text passes whatever the vision tower computes, so a picture is a probe of its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.engine import Engine, UniquePrompt
from creditflow.agents.language_model.models.vision import completion_logits, picture_tensors, rope_positions
from creditflow.agents.language_model.pictures import PictureEncoder

__all__ = ["picture_differences"]

TOKENS: Final = 4
CELLS: Final = 3  # tokens per side of the picture


def picture_differences(model: Any, engine: Engine, encoder: PictureEncoder) -> NDArray[np.float64]:
    """Absolute differences, float64 (n,), of log-probabilities after a fixed picture: the engine's and the model's own."""
    import torch

    side = CELLS * encoder.processor.patch_size * encoder.processor.merge_size
    picture = encoder.encode(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8))
    prompt = encoder.expand(np.array([encoder.token], np.int32), [picture])
    sampling = Sampling(max_new_tokens=TOKENS)
    [[completion]] = engine.complete([UniquePrompt(prompt, (0,), (picture,))], sampling, frozenset(), 0)
    ids = np.concatenate([prompt, completion.ids])
    training, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        with torch.inference_mode():
            logits = model(
                input_ids=torch.from_numpy(ids.astype(np.int64))[None].to(device),
                position_ids=torch.from_numpy(rope_positions(ids, [picture]))[:, None].to(device),
                **picture_tensors([picture], device),
            ).logits[0, len(prompt) - 1 : -1]
            table = torch.log_softmax(completion_logits(model, logits.float()), -1).cpu().numpy()
    finally:
        model.train(training)
    trainer_logprobs = table[np.arange(len(completion.ids)), completion.ids]
    differences: NDArray[np.float64] = np.abs(trainer_logprobs.astype(np.float64) - completion.logprobs)
    return differences
