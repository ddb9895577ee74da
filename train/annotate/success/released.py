"""Success models in the text format of PiCA's code: a placeholder token after every step, and how a checkpoint is opened.

The released code trains a causal language model with a scalar head, the weight ``score.weight`` beside the backbone's. At
every placeholder it predicts the probability h that the step which ends there is the first error. The signs "+" and "−" that
the paper's table 4 lists are labels there. No released weights are known to us, so this format is tested on models that
we made. Our own success models need no placeholders: they are evaluated at the token offsets of the turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from creditflow.agents.language_model.text_ids import text_ids
from creditflow.envs.errors import DataError
from creditflow.envs.reading.failures import loading
from creditflow.train.annotate.base import AnnotationError
from creditflow.train.annotate.success.encoding import Encoded, encoded
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

if TYPE_CHECKING:
    from creditflow.train.annotate.success.model import SuccessModel

__all__ = ["PLACEHOLDER", "ReleasedEncoder", "compact_text", "open_released", "text_with_placeholders"]

PLACEHOLDER: Final = "<|vision_start|>"  # of the released settings for Qwen models


def compact_text(text: str) -> str:
    """Every run of white space as one space, none at the ends."""
    return " ".join(text.split())


def text_with_placeholders(question: Any, turns: Sequence[Turn], placeholder: str, name: str) -> str:
    """An episode in the format of the released model: one text with a placeholder after every completion.

    The released code searches a text for tags; here the placeholders come from the turns, so an invalid turn has one and a
    quoted tag has none.

    Args:
        question: question of the task; None takes the first observation.
        turns: the full episode, with texts.
        placeholder: marks the end of a turn.
        name: of the trajectory, for errors.

    Raises:
        AnnotationError: a turn without texts, or a text that contains the placeholder.
    """
    text, ends = question if isinstance(question, str) else turns[0].observation, []
    for t, turn in enumerate(turns):
        completion = turn.response or turn.action
        if (not completion and turn.valid) or (t and not turn.observation):
            raise AnnotationError(f"trajectory {name!r}, turn {t} was recorded without texts; record the log with them")
        text += (turn.observation if t else "") + completion
        ends.append(len(compact_text(text)))
    if placeholder in text:
        raise AnnotationError(
            f"trajectory {name!r} contains the placeholder {placeholder!r} in its own text: it would be read as the end of a step"
        )
    text = compact_text(text)
    pieces = [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return f"{placeholder}\n".join(pieces) + placeholder


class ReleasedEncoder:
    """Encodes episodes as the released model reads them.

    Args:
        tokenizer: tokenizer of the model; the placeholder must be one of its tokens.
        positions: longest episode in tokens; 0 for no limit.
        placeholder: token that marks the end of a turn.

    Raises:
        DataError: the placeholder is no token of the tokenizer.
    """

    def __init__(self, tokenizer: Any, positions: int = 0, placeholder: str = PLACEHOLDER) -> None:
        self.tokenizer, self.positions, self.placeholder = tokenizer, positions, placeholder
        mark = tokenizer.get_vocab().get(placeholder)
        if mark is None:
            raise DataError(
                f"the placeholder {placeholder!r} is no token of this model's tokenizer; name the one that the model was "
                "trained with: --set placeholder=TOKEN"
            )
        self._mark = int(mark)

    def encode_member(self, group: Group, index: int) -> Encoded:
        """Encode a trajectory of a group; a branch with the turns it shares. Without turns there are no ends.

        The first end, the question's, is never read: before the first step f is 1.

        Raises:
            AnnotationError: as ``text_with_placeholders``.
            EpisodeTooLongError: more tokens than the model takes.
        """
        member = group.trajectories[index]
        if not member.turns:
            return Encoded(np.zeros(0, np.int32), np.zeros(0, np.int64))
        turns = group.episodes[index]
        text = text_with_placeholders(group.task.get("question"), turns, self.placeholder, member.trajectory_id)
        ids: list[int] = []
        ends = [0]
        for piece in text.split(self.placeholder)[:-1]:
            ids += text_ids(self.tokenizer, [piece])[0]
            ids.append(self._mark)
            ends.append(len(ids) - 1)
        name = f"group {group.group_id!r}, trajectory {member.trajectory_id!r}"
        return encoded(ids, ends, self.positions, name, len(turns) - len(member.turns))


def open_released(
    folder: str | Path, *, device: str = "auto", placeholder: str = PLACEHOLDER
) -> tuple[SuccessModel, ReleasedEncoder]:
    """A checkpoint as the released code writes it, which has no description of ours, and the encoder of its texts.

    Args:
        folder: a folder of a causal language model in safetensors.
        device: "auto", "cpu", "cuda", …
        placeholder: token that marks the end of a step.

    Raises:
        DataError: not such a folder, no head in it, or a tokenizer without the placeholder.
    """
    from creditflow.agents.language_model.pretrained import open_pretrained
    from creditflow.train.annotate.success.model import SuccessModel

    backbone, tokenizer = open_pretrained(str(folder), device=device)
    encoder = ReleasedEncoder(tokenizer, int(getattr(backbone.config, "max_position_embeddings", 0) or 0), placeholder)
    model = SuccessModel(backbone)
    with loading(f"{folder}: its head score.weight cannot be read"):
        model.score.load_state_dict({"weight": _score_weight(Path(folder))})
    return model.eval(), encoder


def _score_weight(folder: Path) -> Any:
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            if "score.weight" in tensors.keys():  # noqa: SIM118 - a safetensors file, which is no mapping
                return tensors.get_tensor("score.weight").float()
    raise DataError(
        f"{folder} has no weight score.weight, the head of PiCA's released code; name one of its checkpoints"
    )
