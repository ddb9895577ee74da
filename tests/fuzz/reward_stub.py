"""``creditflow serve-reward`` with a stub for the model, so that its server runs without torch."""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model import pretrained
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.serving.released_format import PLACEHOLDER
from creditflow.train.commands.serve import reward as serve_reward
from creditflow.wrappers.records.trajectory import Turn


class StandIn:
    """A stub whose hazard of a turn is the number of letters x in it, divided by 100, at most 1."""

    about: Mapping[str, Any] = {"kind": "hazard", "model": "blake2b:0", "parameters": {"kind": "hazard"}}

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def read_text(self, text: str) -> list[float]:
        """Return the hazards of a text with placeholders."""
        if PLACEHOLDER not in text:
            raise DataError("the text has no placeholder")
        return [min(1.0, piece.count("x") / 100) for piece in text.split(PLACEHOLDER)[:-1]]

    def read_turns(self, turns: Sequence[Turn]) -> list[float]:
        """Return the hazards of an episode."""
        return [min(1.0, turn.action.count("x") / 100) for turn in turns]

    def hazards(self, read: Sequence[list[float]]) -> list[NDArray[np.float64]]:
        """Return the hazards as arrays."""
        return [np.array(one) for one in read]

    def success(self, read: Sequence[list[float]]) -> list[NDArray[np.float64]]:
        """Return the probability that no turn so far was wrong, before the first turn and after each."""
        return [np.concatenate([[1.0], np.cumprod(1.0 - np.array(one))]) if one else np.zeros(0) for one in read]


if __name__ == "__main__":
    rater = types.ModuleType("creditflow.train.annotate.success.serving.rater")
    rater.LocalRater = StandIn  # type: ignore[attr-defined]  # the module is a stub
    sys.modules[rater.__name__] = rater
    pretrained.require_torch = lambda: None
    parser = argparse.ArgumentParser()
    serve_reward.add_arguments(parser)
    sys.exit(serve_reward.run(parser.parse_args(["--model", "none", "--port", sys.argv[1]])))
