"""The work that both trainers do: model, tasks, episodes and update, and the operations that it takes.

Every episode has the same number of turns (no level can be solved within them), every observation and every completion the
same number of tokens. The two streams of token ids are equal but for the sampled actions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.train.settings.model import ScratchConfig
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import EnvConfig, TrainConfig

__all__ = ["LEVELS", "SIDE", "THOUGHT", "WARM_UP", "WORKS", "Work"]

SIDE: Final = 6  # cells of a board's side
THOUGHT: Final = "push one box toward its target while keeping away from corners that would trap it forever"
SYNTAX: Final = 16  # tokens of a completion beside the thought: the tags, the action and the end token
MESSAGE: Final = 3  # tokens of a message beside its text: its role, its end, and the next role
OBSERVED: Final = SIDE * SIDE + SIDE - 1 + MESSAGE
LEVELS: Final = "levels.txt"
WARM_UP: Final = 1  # iterations that are not counted


@dataclass(frozen=True, kw_only=True)
class Work:
    """One row of the comparison.

    Attributes:
        hidden, layers, heads, intermediate: the network.
        tasks, group_size: groups of an iteration, and episodes of a group.
        turns: turns of every episode.
        micro_rows: episodes in one forward pass of the update.
        iterations: counted iterations, one optimiser step each.
        sft_steps, sft_rows: steps in which the model learns the format, and episodes of a step.
        seed: of weights, tasks and samples.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    tasks: int
    turns: int
    group_size: int = 8
    micro_rows: int = 8
    iterations: int = 2
    sft_steps: int = 150
    sft_rows: int = 4
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return asdict(self)

    # -- tokens -------------------------------------------------------------------------------------------------------
    @property
    def completion(self) -> int:
        """Tokens of a completion."""
        return SYNTAX + len(THOUGHT.split())

    @property
    def length(self) -> int:
        """Tokens of an episode: every turn is an observation and a completion."""
        return self.turns * (OBSERVED + self.completion)

    @property
    def episodes(self) -> int:
        """Episodes of an iteration."""
        return self.tasks * self.group_size

    # -- settings -----------------------------------------------------------------------------------------------------
    @property
    def network(self) -> ScratchConfig:
        """The model, trained from scratch."""
        return ScratchConfig(
            architecture="qwen2", hidden=self.hidden, layers=self.layers, heads=self.heads, kv_heads=self.heads,
            intermediate=self.intermediate, vocabulary=512, positions=2048, pattern=" ?[a-z]+|.",
        )  # fmt: skip

    def env(self, start: Path | None = None) -> EnvConfig:
        """Sokoban with two boxes, rewards on the way, and no solution within the turns of an episode.

        Args:
            start: folder of the model and of the chosen levels; None for endless levels.
        """
        generator = {"height": SIDE, "width": SIDE, "boxes": 2, "min_length": self.turns + 1}
        source = {"generator": generator} if start is None else {"levels": str(start / LEVELS)}
        options = {"reward": "gym_sokoban", "max_steps": self.turns, "symbols": "ascii", "separator": ""}
        return EnvConfig(name="sokoban", options=source | options)

    @property
    def prompting(self) -> PromptingConfig:
        """The observation alone, in a conversation that grows."""
        return PromptingConfig(prompt="terse-v1", dialect="think", history="append")

    def settings(self, start: Path, out: Path) -> TrainConfig:
        """The run of our trainer."""
        data = {
            "out": str(out), "seed": self.seed, "device": "cpu", "threads": 1,
            "model": {"path": str(start)},
            "rollout": {"tasks": self.tasks, "group_size": self.group_size, "max_new_tokens": self.completion},
            "update": {
                "iterations": WARM_UP + self.iterations, "batch_tokens": self.micro_rows * self.length,
                "packing": "padded",  # packed rows would share what episodes of a group have in common, which TRL computes
                "optimizer": {"lr": 1e-6},
            },
            "checkpoint": {"every": 1000},
            "env": asdict(self.env(start)), "prompting": asdict(self.prompting),
        }  # fmt: skip
        return read_dataclass(TrainConfig, data)

    # -- operations ---------------------------------------------------------------------------------------------------
    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """Inputs, outputs and number of the matrices that every token is multiplied with."""
        return [
            (self.hidden, self.hidden, 4 * self.layers),
            (self.hidden, self.intermediate, 2 * self.layers),
            (self.intermediate, self.hidden, self.layers),
        ]

    def operations(self, vocabulary: int) -> float:
        """Floating-point operations that an iteration needs.

        Every token is read once while sampling, and once forward and backward (twice the cost) in the update; the output
        layer is needed at sampled tokens only. Two operations per weight and token, and four per hidden unit, layer and
        pair of tokens for attention. What a trainer computes beyond that is not counted.
        """
        weights = sum(rows * columns * count for rows, columns, count in self.shapes)
        sampled = self.turns * self.completion
        attention = 4.0 * self.hidden * self.layers * self.length * (self.length + 1) / 2
        forward = 2.0 * weights * self.length + 2.0 * vocabulary * self.hidden * sampled + attention
        return 4.0 * forward * self.episodes


WORKS: Final = {
    "0.4 M, 8 turns": Work(hidden=96, layers=3, heads=3, intermediate=256, tasks=4, turns=8),
    "3 M, 8 turns": Work(hidden=256, layers=4, heads=4, intermediate=704, tasks=2, turns=8, sft_rows=2),
    "3 M, 16 turns": Work(hidden=256, layers=4, heads=4, intermediate=704, tasks=1, turns=16, sft_rows=1),
    "10 M, 8 turns": Work(hidden=448, layers=4, heads=7, intermediate=1216, tasks=1, turns=8, sft_rows=1),
}
