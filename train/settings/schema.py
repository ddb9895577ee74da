"""All settings of a training run, as one tree of frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least, require_seed
from creditflow.train.settings.credit import CreditConfig, OverlongConfig
from creditflow.train.settings.model import ModelConfig
from creditflow.train.settings.overrides import apply_overrides, with_variables
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.settings.rollout import WAVE, GenerationConfig, RolloutConfig
from creditflow.train.settings.update import CriticConfig, SftConfig, UpdateConfig

__all__ = [
    "CheckpointConfig",
    "CreditConfig",
    "CriticConfig",
    "EnvConfig",
    "EvaluationConfig",
    "GenerationConfig",
    "LogConfig",
    "ModelConfig",
    "OverlongConfig",
    "RolloutConfig",
    "SftConfig",
    "TaskConfig",
    "TrainConfig",
    "UpdateConfig",
    "VerlConfig",
    "load_settings",
]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """The environment.

    Attributes:
        name: id or name for ``creditflow.make``, a Gymnasium id, or path/to/file.py:NAME.
        options: arguments of the environment.
        invalid_actions: what the environment does with an invalid action; penalties of the credit scheme are separate.
    """

    name: str = "sokoban"
    options: dict[str, Any] = field(default_factory=dict)
    invalid_actions: Literal["keep", "penalise", "retry", "terminate"] = "keep"


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """The training tasks.

    Attributes:
        panel: built-in tasks, "NAME:SPLIT"; "" uses the environment's own tasks.
        count: number of tasks, sampled once and used in every iteration; 0 uses all tasks of a finite source.
        exclude: panels ("NAME:SPLIT") whose tasks, and all tasks symmetric to them, are never used for training.
    """

    panel: str = ""
    count: int = 0
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_at_least(self, 0, "count")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Evaluation on held-out tasks.

    Attributes:
        panel: tasks to evaluate on, "NAME:SPLIT"; "" for no evaluation.
        final_panel: tasks to evaluate on once, after the last iteration; "" for none.
        every: iterations between evaluations; 0 evaluates only before and after training.
        limit: number of tasks of ``panel`` to use; 0 uses all.
        final_limit: number of tasks of ``final_panel`` to use; 0 uses all.
        samples: sampled episodes per task, in addition to a greedy one.
        temperature: sampling temperature of the sampled episodes.
        top_p: nucleus of the sampled episodes; 1 keeps all tokens.
        env_options: arguments of the environment that differ in evaluation.
    """

    panel: str = ""
    final_panel: str = ""
    every: int = 0
    limit: int = 0
    final_limit: int = 0
    samples: int = 4
    temperature: float = 1.0
    top_p: float = 1.0
    env_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_at_least(self, 0, "every", "limit", "final_limit", "samples")
        Sampling(temperature=self.temperature, top_p=self.top_p)  # checks both


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Checkpoints.

    Attributes:
        every: iterations between checkpoints, or ten times as many steps in SFT; 0 writes a checkpoint after every
            iteration and none in SFT. For a success model: steps, and 0 writes none.
        keep: number of most recent checkpoints to keep; 0 keeps all.
        best: keep the policy with the highest success on ``evaluation.panel`` as a Hugging Face folder, ``OUT/best``.
    """

    every: int = 20
    keep: int = 2
    best: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 0, "every", "keep")


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """Logging in addition to ``metrics.jsonl``.

    Attributes:
        tensorboard: also log to TensorBoard.
        wandb: Weights & Biases project to log to; "" for none.
    """

    tensorboard: bool = False
    wandb: str = ""


@dataclass(frozen=True, kw_only=True)
class VerlConfig:
    """Machines and options for ``--engine verl``; creditflow's own trainer ignores them.

    Attributes:
        gpus: number of GPUs to use per node.
        nodes: number of nodes; more than one needs ``ray``.
        tensor_parallel: number of GPUs that share the weights of one sampler.
        ray: address of a running Ray cluster, such as "auto"; "" starts one on this node and stops it afterwards.
        options: settings of verl by their full dotted names, such as
            {"actor_rollout_ref.actor.fsdp_config.param_offload": true}. They override the translated ones.
    """

    gpus: int = 8
    nodes: int = 1
    tensor_parallel: int = 1
    ray: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_at_least(self, 1, "gpus", "nodes", "tensor_parallel")
        if self.gpus % self.tensor_parallel:
            raise ConfigError(f"verl.tensor_parallel must divide verl.gpus, got {self.tensor_parallel} and {self.gpus}")
        if self.nodes > 1 and not self.ray:
            raise ConfigError(
                f"verl.nodes={self.nodes} needs a Ray cluster: run `ray start --head` on one node, `ray start --address=…` on "
                "the others, and set verl.ray=auto"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run.

    Attributes:
        out: run folder.
        seed: seed of all random numbers.
        device: "auto", "cpu", "cuda", …
        threads: number of torch threads on a CPU; 0 keeps torch's default.
    """

    out: str
    seed: int = 0
    device: str = "auto"
    threads: int = 0
    env: EnvConfig = field(default_factory=EnvConfig)
    tasks: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    prompting: PromptingConfig = field(default_factory=PromptingConfig)
    sft: SftConfig = field(default_factory=SftConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    verl: VerlConfig = field(default_factory=VerlConfig)

    def __post_init__(self) -> None:
        rollout = self.rollout
        require_seed(self)
        require_at_least(self, 0, "threads")
        self.sampling.check_context(self.prompting.max_context)
        if self.generation.backend == "vllm" and (self.truncation or self.evaluation.top_p < 1.0):
            raise ConfigError(
                "top_p and top_k are for generation.backend: transformers; vLLM's log-probabilities under them were not tested"
            )
        if self.generation.backend == "vllm" and rollout.branching.max_trajectories:
            raise ConfigError(
                "branching needs entropies, which vLLM does not report: use generation.backend: transformers"
            )
        if self.credit.overlong.unit == "trajectory" and rollout.branching.max_trajectories:
            raise ConfigError(
                "credit.overlong.unit: trajectory has no length for branches, which share a prefix: use turn"
            )
        if self.model.lora.rank and self.sft.episodes and self.update.loss.kl_weight:
            raise ConfigError(
                "with model.lora the reference policy is the base model without the adapter that SFT trains. Set "
                "update.loss.kl_weight=0, or run SFT separately and start from its merged model"
            )
        rows_of_turns = self.prompting.history == "window" or self.update.row_layout == "turn"
        if self.update.loss.ratio == "sequence" and rows_of_turns:
            raise ConfigError(
                "update.loss.ratio: sequence needs a trajectory in one row; with prompting.history: window or "
                "update.row_layout: turn use ratio: turn"
            )

    @property
    def evaluation_env(self) -> EnvConfig:
        """The environment of evaluations."""
        return replace(self.env, options={**self.env.options, **self.evaluation.env_options})

    @property
    def concurrent_evaluations(self) -> int:
        """Largest number of episodes that an evaluation plays at the same time: those of a rollout, unless vLLM bounds its memory."""
        episodes = self.rollout.concurrent_episodes
        return episodes if self.generation.backend == "transformers" else max(episodes, WAVE)

    @property
    def sampling(self) -> Sampling:
        """How training episodes are sampled."""
        rollout = self.rollout
        return Sampling(rollout.max_new_tokens, rollout.temperature, rollout.top_p, rollout.top_k)

    @property
    def truncation(self) -> Sampling | None:
        """How training episodes are sampled, if from a truncated distribution."""
        return self.sampling if self.sampling.truncated else None


def load_settings(path: str | Path, overrides: tuple[str, ...] = ()) -> TrainConfig:
    """A run's settings from a file and ``a.b=c`` overrides. $VARIABLES in ``out``, ``model.path`` and the environment's options are expanded.

    Raises:
        DataError: the file cannot be read.
        ConfigError: a wrong name or value; suggests the nearest one.
    """
    data = apply_overrides(load_mapping(path), overrides)
    for place in (("out",), ("model", "path"), ("env", "options"), ("evaluation", "env_options")):
        *outer, last = place
        inside: Any = data
        for name in outer:
            inside = inside.get(name) if isinstance(inside, dict) else None
        if isinstance(inside, dict) and last in inside:
            inside[last] = with_variables(inside[last], ".".join(place))
    return read_dataclass(TrainConfig, data)
