"""Translate a run's settings into verl's configuration, line by line, and say what verl cannot do.

``translate`` is a pure function, and needs neither verl nor torch: every setting becomes lines of verl's configuration or of
the agent loop's file, or is refused by name, or, where it concerns only how our own trainer computes, is listed as left out.
verl's names and defaults are those of release 0.9.1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.train.adapters.verl.credit import LOSS_AGG_MODES, NAME
from creditflow.train.settings.reading import to_plain_data
from creditflow.train.settings.schema import TaskConfig, TrainConfig
from creditflow.wrappers.credit.base import Aggregation

__all__ = ["VALIDATION_LOOP", "Facts", "Line", "Remark", "Translation", "setting_names", "translate"]

VALIDATION_LOOP: Final = "creditflow_validation"  # the agent loop of validation episodes
LOOP_CLASS: Final = "creditflow.train.adapters.verl.loop.CreditAgentLoop"
NO_BOUND: Final = 1e9  # where verl has a bound and we have none
KL_KINDS: Final = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "abs": "abs"}
STORED_ROWS: Final = 100_000  # verl's own default of rows in its queue

# settings without an effect on verl's road, each with the reason; they are listed where they differ from their default
LEFT_OUT: Final[Mapping[str, str]] = {
    "threads": "verl sets the threads of its processes",
    "model.lora.alpha": "there is no adapter",
    "model.lora.dropout": "there is no adapter",
    "model.lora.target_modules": "there is no adapter",
    "model.lora.base_dtype": "there is no adapter",
    "model.scratch": "model.path is trained",
    "sft": "there is no SFT on this road: sft.episodes is 0",
    "rollout.concurrent_groups": "vLLM bounds its memory itself",
    "rollout.attempts": "groups are sampled once",
    "rollout.resample": "groups are sampled once",
    "rollout.branching": "no episode branches: rollout.branching.max_trajectories is 0",
    "generation.vllm": "read with generation.backend: vllm; verl's own defaults apply",
    "generation.vllm.tolerance": "verl logs training/rollout_probs_diff instead of a check after every push",
    "credit.overlong": "there is no penalty: credit.overlong.max_tokens is 0",
    "critic": "there is no critic",
    "evaluation.final_panel": "the command printed at the end evaluates it",
    "evaluation.final_limit": "the command printed at the end evaluates the whole panel",
    "checkpoint.best": "a merger writes OUT/model after training",
    "update.row_layout": "a row of verl is an episode, with prompting.history: window a turn; the loss is the same",
    "update.minibatch_unit": "update.minibatch_size is 0",
    "update.loss.kl_kind": "update.loss.kl_weight is 0",
    "update.loss.kl_in": "update.loss.kl_weight is 0",
    "update.loss.importance_cap": "update.old_logprobs: sampler leaves it nothing to do",
    "update.optimizer.min_lr_fraction": "for a schedule that decays",
    "evaluation.temperature": "evaluation.samples is 0: validation is greedy",
    "evaluation.top_p": "evaluation.samples is 0: validation is greedy",
    "evaluation.every": "evaluation.panel is empty",
    "evaluation.limit": "evaluation.panel is empty",
    "evaluation.samples": "evaluation.panel is empty",
    "evaluation.env_options": "evaluation.panel is empty",
}
# settings of which verl's road has one value: that value, the setting or section that a remark names, and the reason
ONLY: Final[Mapping[str, tuple[Any, str, str]]] = {
    "sft.episodes": (
        0,
        "sft",
        "verl's SFT is a separate program: run SFT by creditflow's own trainer (update.iterations=0), then set "
        "model.path=OUT/model and sft.episodes=0",
    ),
    "model.lora.rank": (
        0,
        "model.lora.rank",
        "verl's merger leaves the adapter next to the model; no run of it was tested: 0",
    ),
    "rollout.dynamic_sampling": (
        False,
        "rollout.dynamic_sampling",
        "verl's v1 trainer ignores algorithm.filter_groups: false",
    ),
    "rollout.variance_share": (1.0, "rollout.variance_share", "verl's trainer does not filter groups by variance: 1.0"),
    "rollout.branching.max_trajectories": (0, "rollout.branching", "verl's episodes do not branch: max_trajectories=0"),
    "critic.kind": (
        "none",
        "critic",
        "verl's critic is trained by verl's own estimator on rewards of tokens, and its values do not reach "
        "the credit schemes, which read them by turn: kind=none",
    ),
    "credit.overlong.max_tokens": (0, "credit.overlong", "verl's rewards are the environment's alone: max_tokens=0"),
    "update.loss.ratio": (
        "token",
        "update.loss.ratio",
        "verl's loss for ratios of sequences averages advantages over a row, and no test "
        "shows that a turn keeps its own: token",
    ),
}


@dataclass(frozen=True)
class Line:
    """One line of verl's configuration.

    Attributes:
        key: dotted name.
        value: plain data.
        settings: the settings of ours that it carries; none for a line that this road needs.
        why: what the reader should know of it.
    """

    key: str
    value: Any
    settings: tuple[str, ...] = ()
    why: str = ""

    @property
    def source(self) -> str:
        """Where the line comes from, in a few words."""
        return ": ".join(text for text in (", ".join(self.settings), self.why) if text)


@dataclass(frozen=True)
class Remark:
    """Settings, or whole sections of them, that have no line in verl's configuration, with the reason."""

    settings: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{', '.join(self.settings)}: {self.reason}"


@dataclass(frozen=True)
class Facts:
    """What a translation must know beside the settings.

    Attributes:
        tasks: number of training tasks.
        validation_tasks: number of tasks in the validation panel, after ``evaluation.limit``; 0 without a panel.
        max_turns: the largest number of turns of an episode.
        aggregation: loss aggregation of the credit scheme.
        needs: annotations that the scheme reads.
        pictures: whether the prompt shows pictures.
    """

    tasks: int
    validation_tasks: int
    max_turns: int
    aggregation: Aggregation = "token_mean"
    needs: tuple[str, ...] = ()
    pictures: bool = False


@dataclass(frozen=True)
class Translation:
    """A run in verl's words.

    Attributes:
        lines: verl's configuration, in the order in which it is printed.
        loops: the agent loops' file: of training, and of validation.
        refused: what verl cannot do; a run with any does not start.
        left_out: settings that only concern our own trainer, or have no effect in this run.
    """

    lines: tuple[Line, ...]
    loops: tuple[tuple[Line, ...], ...]
    refused: tuple[Remark, ...]
    left_out: tuple[Remark, ...]

    def value(self, key: str) -> Any:
        """The value of one line."""
        return next(line.value for line in self.lines if line.key == key)

    def config_text(self) -> str:
        """verl's configuration as YAML that its command reads, each line with its source."""
        return "defaults:\n  - ppo_trainer\n  - _self_\n" + _yaml(self.lines)

    def loops_text(self) -> str:
        """The agent loops' file as YAML."""
        return "".join("-" + _yaml(loop, 2)[1:] for loop in self.loops)


def setting_names(settings: Any, prefix: str = "") -> Iterator[str]:
    """Every setting of a dataclass tree, by its dotted name, in order."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            yield from setting_names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def translate(settings: TrainConfig, facts: Facts) -> Translation:
    """The settings in verl's words."""
    lines = [
        *_algorithm(settings, facts),
        *_data(settings, facts),
        *_model(settings, facts),
        *_actor(settings, facts),
        *_sampler(settings),
        *_trainer(settings, facts),
    ]
    lines += _on_a_cpu(settings) if settings.device == "cpu" else []
    lines = _with_options(lines, settings.verl.options)
    loops = [_loop(settings, NAME, settings.env.options, ("env.options",))]
    if settings.evaluation.panel:
        names = ("env.options", "evaluation.env_options")
        loops.append(_loop(settings, VALIDATION_LOOP, settings.evaluation_env.options, names))
    refused = (*_refusals(settings, facts), *_batch_refusals(settings, facts))
    named: list[Line | Remark] = [*lines, *refused]
    for loop in loops:
        named += loop
    carried = {name for entry in named for name in entry.settings}
    return Translation(tuple(lines), tuple(loops), refused, tuple(_left_out(settings, carried)))


def _algorithm(settings: TrainConfig, facts: Facts) -> list[Line]:
    credit, loss, update = settings.credit, settings.update.loss, settings.update
    bypass = update.old_logprobs == "sampler"
    weighted = bool(loss.importance_cap) and not bypass
    cap = [
        Line("algorithm.rollout_correction.rollout_is_threshold", loss.importance_cap, ("update.loss.importance_cap",))
    ]
    follows = loss.aggregation == "auto" or loss.aggregation == facts.aggregation
    return [
        Line("algorithm.adv_estimator", NAME, (), "credit is assigned by creditflow"),
        Line("algorithm.use_kl_in_reward", False, (), "the KL term is in the loss"),
        Line(f"algorithm.{NAME}.scheme", credit.scheme, ("credit.scheme",)),
        Line(f"algorithm.{NAME}.semantics", credit.semantics, ("credit.semantics",)),
        Line(f"algorithm.{NAME}.parameters", dict(credit.parameters), ("credit.parameters",)),
        Line(f"algorithm.{NAME}.averaging", "scheme" if follows else "verl", ("update.loss.aggregation",)),
        Line(f"algorithm.{NAME}.incomplete", "refuse", (), "an episode that is lost ends the run"),
        Line("algorithm.rollout_correction.bypass_mode", bypass, ("update.old_logprobs",)),
        Line("algorithm.rollout_correction.rollout_is", "token" if weighted else None, ("update.old_logprobs",)),
        *(cap if weighted else []),
    ]


def _data(settings: TrainConfig, facts: Facts) -> list[Line]:
    rollout, context = settings.rollout, settings.prompting.max_context
    folder, panel = _folder(settings), settings.evaluation.panel
    windowed = settings.prompting.history == "window"
    lengths = ("prompting.max_context", "rollout.max_new_tokens")
    longest = rollout.max_new_tokens if windowed else context
    validation = f"{folder}/verl/{'validation' if panel else 'train'}.parquet"
    held = ("evaluation.panel", "evaluation.limit") if panel else ("evaluation.panel",)
    limit = f"the first {settings.evaluation.limit}" if settings.evaluation.limit else "all"
    judged = f"{limit} of {panel}, {facts.validation_tasks} tasks"
    return [
        Line(
            "data.train_files",
            f"{folder}/verl/train.parquet",
            ("env.name", "tasks.panel", "tasks.count", "tasks.exclude"),
            f"{facts.tasks} tasks{_chosen(settings.tasks)}",
        ),
        Line("data.val_files", validation, held, judged if panel else "verl asks for a file"),
        Line("data.train_batch_size", rollout.tasks, ("rollout.tasks",), "groups of an iteration"),
        Line("data.max_prompt_length", max(1, context - rollout.max_new_tokens), lengths),
        Line(
            "data.max_response_length",
            max(1, longest),
            lengths,
            "one completion" if windowed else "all turns, within the context",
        ),
        Line("data.return_raw_chat", True, (), "the agent loop makes the prompts"),
        Line("data.filter_overlong_prompts", False, (), "the files contain tasks, not prompts"),
        Line("data.shuffle", True, (), "tasks are drawn without replacement, epoch after epoch"),
        Line("data.seed", settings.seed, ("seed",)),
    ]


def _chosen(tasks: TaskConfig) -> str:
    """How the training tasks are chosen, in words."""
    panel = f" of {tasks.panel}" if tasks.panel else ""
    count = f", {tasks.count} drawn" if tasks.count else ""
    return panel + count + (f", none of {' '.join(tasks.exclude)}" if tasks.exclude else "")


def _model(settings: TrainConfig, facts: Facts) -> list[Line]:
    model, name = settings.model, "actor_rollout_ref.model"
    tokenizer = Line(
        f"{name}.tokenizer_path",
        f"{_folder(settings)}/verl/tokenizer",
        (),
        "as it was saved: next to a config.json transformers may build another one",
    )
    if facts.pictures:
        tokenizer = Line(f"{name}.tokenizer_path", model.path, ("model.path",), "with the processor of pictures")
    return [
        Line(f"{name}.path", model.path, ("model.path",)),
        tokenizer,
        Line(f"{name}.trust_remote_code", False, (), "no code of a model's is run"),
        Line(f"{name}.enable_gradient_checkpointing", model.gradient_checkpointing, ("model.gradient_checkpointing",)),
        Line(f"{name}.use_remove_padding", settings.update.packing == "packed", ("update.packing",)),
    ]


def _actor(settings: TrainConfig, facts: Facts) -> list[Line]:
    name, update, loss, optimizer = (
        "actor_rollout_ref.actor",
        settings.update,
        settings.update.loss,
        settings.update.optimizer,
    )
    size, sized_by, why = _minibatch(settings, facts)
    precision = "bf16" if settings.model.autocast == "bfloat16" else "fp32"
    mixed = {"param_dtype": precision, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    tokens = max(update.batch_tokens, settings.prompting.max_context)
    mode, mode_names = _loss_mode(settings, facts)
    lines = [
        Line(f"{name}.strategy", "fsdp2", (), "weights, gradients and moments divided over all GPUs"),
        Line(f"{name}.fsdp_config.model_dtype", "fp32", (), "master weights"),
        Line(f"{name}.fsdp_config.mixed_precision", mixed, ("model.autocast",)),
        Line(f"{name}.fsdp_config.seed", settings.seed, ("seed",)),
        Line(f"{name}.freeze_vision_tower", settings.model.freeze_vision, ("model.freeze_vision",)),
        Line(f"{name}.ppo_mini_batch_size", size, sized_by, why),
        Line(f"{name}.ppo_epochs", update.epochs, ("update.epochs",)),
        Line(f"{name}.shuffle", True, (), "rows, before they are split into minibatches"),
        Line(f"{name}.data_loader_seed", settings.seed, ("seed",)),
        Line(f"{name}.use_dynamic_bsz", True, (), "micro-batches by tokens; rows of turns need it"),
        Line(f"{name}.ppo_max_token_len_per_gpu", tokens, ("update.batch_tokens",), "at least one row"),
        Line(f"{name}.entropy_from_logits_with_chunking", True, (), "the logits of a micro-batch do not fit at once"),
        Line(f"{name}.entropy_from_logits_chunk_size", update.logits_chunk, ("update.logits_chunk",)),
        Line(f"{name}.use_torch_compile", False, (), "verl's default compiles"),
        Line(f"{name}.loss_agg_mode", mode, mode_names),
        Line(f"{name}.policy_loss.loss_mode", "vanilla", ("update.loss.ratio",), "a ratio of each token"),
        Line(f"{name}.clip_ratio", loss.clip_low, ("update.loss.clip_low",)),
        Line(f"{name}.clip_ratio_low", loss.clip_low, ("update.loss.clip_low",)),
        Line(f"{name}.clip_ratio_high", loss.clip_high, ("update.loss.clip_high",)),
        Line(
            f"{name}.clip_ratio_c",
            loss.dual_clip or NO_BOUND,
            ("update.loss.dual_clip",),
            "" if loss.dual_clip else "0 is no bound, which verl lacks",
        ),
        Line(f"{name}.use_kl_loss", bool(loss.kl_weight), ("update.loss.kl_weight",)),
        Line(f"{name}.entropy_coeff", loss.entropy_weight, ("update.loss.entropy_weight",)),
        Line(f"{name}.optim.lr", optimizer.lr, ("update.optimizer.lr",)),
        Line(
            f"{name}.optim.lr_scheduler_type",
            optimizer.schedule,
            ("update.optimizer.schedule",),
            "a step of the schedule is an iteration",
        ),
        Line(f"{name}.optim.lr_warmup_steps_ratio", optimizer.warmup_fraction, ("update.optimizer.warmup_fraction",)),
        Line(f"{name}.optim.betas", list(optimizer.betas), ("update.optimizer.betas",)),
        Line(
            f"{name}.optim.weight_decay",
            optimizer.weight_decay,
            ("update.optimizer.weight_decay",),
            "of biases and norms too" if optimizer.weight_decay else "",
        ),
        Line(f"{name}.optim.clip_grad", optimizer.grad_clip or NO_BOUND, ("update.optimizer.grad_clip",)),
        Line(f"{name}.optim.override_optimizer_config", {"eps": optimizer.eps}, ("update.optimizer.eps",)),
        Line(f"{name}.checkpoint.save_contents", ["model", "optimizer", "extra"], (), "all that resuming needs"),
    ]
    if loss.aggregation == "constant":
        lines.append(Line(f"{name}.loss_scale_factor", loss.normaliser, ("update.loss.normaliser",)))
    if loss.kl_weight:
        lines.append(Line(f"{name}.kl_loss_coef", loss.kl_weight, ("update.loss.kl_weight",)))
        lines.append(Line(f"{name}.kl_loss_type", KL_KINDS[loss.kl_kind], ("update.loss.kl_kind", "update.loss.kl_in")))
        reference = "bf16" if precision == "bf16" else "fp32"
        lines += [
            Line(
                "actor_rollout_ref.ref.fsdp_config.model_dtype",
                reference,
                ("model.autocast",),
                "the reference only runs forward",
            ),
            Line("actor_rollout_ref.ref.fsdp_config.mixed_precision", mixed, ("model.autocast",)),
        ]
    if optimizer.schedule != "constant":
        fraction = optimizer.min_lr_fraction
        lines.append(Line(f"{name}.optim.min_lr_ratio", fraction, ("update.optimizer.min_lr_fraction",)))
    return lines


def _minibatch(settings: TrainConfig, facts: Facts) -> tuple[int, tuple[str, ...], str]:
    """verl's ``ppo_mini_batch_size``, what it comes from, and what it means; a size that does not divide is refused elsewhere.

    verl multiplies the size by ``rollout.n`` and counts rows: episodes, or turns where the history is windowed.
    """
    rollout, update = settings.rollout, settings.update
    group = rollout.group_size
    if settings.prompting.history == "window":
        names = ("update.minibatch_size", "update.minibatches", "update.minibatch_unit")
        if not update.minibatch_size:
            rows = f"x {group} turns is at least what an iteration has: one optimiser step"
            return rollout.tasks * facts.max_turns, names[:2], rows
        size = _divisible_turns(settings)
        nearest = "" if size == update.minibatch_size else f", the nearest to {update.minibatch_size} that divides"
        return size // group, names, f"x {group} = {size} turns{nearest}; the last is filled with masked rows"
    sized = ("update.minibatch_size", "update.minibatch_unit") if update.minibatch_size else ("update.minibatch_size",)
    return max(1, rollout.tasks // _count(settings)), ("update.minibatches", *sized), f"x {group} episodes"


def _divisible_turns(settings: TrainConfig) -> int:
    """The multiple of group size and GPUs that is nearest to the minibatch's size in turns."""
    step = math.lcm(settings.rollout.group_size, settings.verl.gpus * settings.verl.nodes)
    return max(1, round(settings.update.minibatch_size / step)) * step


def _count(settings: TrainConfig) -> int:
    """Minibatches of an epoch whose rows are episodes."""
    update, episodes = settings.update, settings.rollout.tasks * settings.rollout.group_size
    return max(1, round(episodes / update.minibatch_size)) if update.minibatch_size else update.minibatches


def _loss_mode(settings: TrainConfig, facts: Facts) -> tuple[str, tuple[str, ...]]:
    aggregation = settings.update.loss.aggregation
    if aggregation == "auto":
        return LOSS_AGG_MODES.get(facts.aggregation, "token-mean"), ("update.loss.aggregation", "credit.scheme")
    if aggregation == "constant":
        return "seq-mean-token-sum-norm", ("update.loss.aggregation",)
    return LOSS_AGG_MODES.get(aggregation, "token-mean"), ("update.loss.aggregation",)


def _sampler(settings: TrainConfig) -> list[Line]:
    name, rollout, evaluation = "actor_rollout_ref.rollout", settings.rollout, settings.evaluation
    vllm, context = settings.generation.vllm, settings.prompting.max_context
    dtype = rollout.dtype
    if dtype == "same":
        dtype = "bfloat16" if settings.model.autocast == "bfloat16" else "float32"
    workers = math.gcd(rollout.tasks, settings.verl.gpus * settings.verl.nodes)
    sampled = evaluation.samples > 0
    lines = [
        Line(f"{name}.name", "vllm", ("generation.backend",), "verl has no sampler of transformers"),
        Line(f"{name}.mode", "async", (), "every episode waits for its own completion alone"),
        Line(f"{name}.n", rollout.group_size, ("rollout.group_size",)),
        Line(f"{name}.temperature", rollout.temperature, ("rollout.temperature",)),
        Line(f"{name}.top_p", rollout.top_p, ("rollout.top_p",)),
        Line(f"{name}.top_k", rollout.top_k or -1, ("rollout.top_k",)),
        Line(f"{name}.dtype", dtype, ("rollout.dtype", "model.autocast")),
        Line(f"{name}.seed", settings.seed, ("seed",)),
        Line(f"{name}.calculate_log_probs", True, (), "the sampler's, for ratios and for the check of weights"),
        Line(f"{name}.max_model_len", context, ("prompting.max_context",)),
        Line(f"{name}.tensor_model_parallel_size", settings.verl.tensor_parallel, ("verl.tensor_parallel",)),
        Line(f"{name}.agent.default_agent_loop", NAME, (), "plays our environments"),
        Line(
            f"{name}.agent.agent_loop_config_path",
            f"{_folder(settings)}/verl/loops.yaml",
            (),
            "environment and prompts",
        ),
        Line(
            f"{name}.agent.num_workers",
            workers,
            ("rollout.tasks", "verl.gpus", "verl.nodes"),
            "share the groups equally",
        ),
    ]
    if evaluation.panel:
        lines += [
            Line(
                f"{name}.val_kwargs.n",
                max(1, evaluation.samples),
                ("evaluation.samples",),
                "without a greedy episode" if sampled else "one greedy episode",
            ),
            Line(f"{name}.val_kwargs.do_sample", sampled, ("evaluation.samples",)),
        ]
    if evaluation.panel and sampled:
        lines += [
            Line(f"{name}.val_kwargs.temperature", evaluation.temperature, ("evaluation.temperature",)),
            Line(f"{name}.val_kwargs.top_p", evaluation.top_p, ("evaluation.top_p",)),
        ]
    if settings.generation.backend == "vllm":
        engine = {"block_size": vllm.block_size} if vllm.block_size else {}
        engine |= {"kv_cache_memory_bytes": int(vllm.kv_gib * 2**30)} if vllm.kv_gib else {}
        lines += [
            Line(f"{name}.gpu_memory_utilization", vllm.memory, ("generation.vllm.memory",)),
            Line(f"{name}.max_num_seqs", vllm.max_sequences, ("generation.vllm.max_sequences",)),
            Line(f"{name}.enforce_eager", vllm.eager, ("generation.vllm.eager",)),
            Line(f"{name}.free_cache_engine", vllm.sleep, ("generation.vllm.sleep",)),
            Line(f"{name}.engine_kwargs.vllm", engine, ("generation.vllm.block_size", "generation.vllm.kv_gib")),
        ]
    return lines


def _trainer(settings: TrainConfig, facts: Facts) -> list[Line]:
    update, evaluation, checkpoint, log = settings.update, settings.evaluation, settings.checkpoint, settings.log
    rounds = max(1, facts.tasks // settings.rollout.tasks)
    test = (evaluation.every or update.iterations) if evaluation.panel else -1
    logger = ["console", "file", *(["tensorboard"] if log.tensorboard else []), *(["wandb"] if log.wandb else [])]
    size = _minibatch(settings, facts)[0] * settings.rollout.group_size
    rows = settings.rollout.tasks * settings.rollout.group_size
    rows *= facts.max_turns if settings.prompting.history == "window" else 1
    validation = facts.validation_tasks * max(1, evaluation.samples) * max(1, facts.max_turns)
    stored = max(STORED_ROWS, 2 * (rows + size), 2 * validation)
    lines = [
        Line("critic.enable", False, ("critic.kind",)),
        Line("reward.num_workers", 1, (), "rewards are the environment's"),
        Line("transfer_queue.backend.SimpleStorage.total_storage_size", stored, (), "rows of an iteration fit twice"),
        Line("trainer.use_v1", True, (), "the trainer that takes a row per turn"),
        Line(
            "trainer.v1.trainer_mode", "sync", (), "its other modes need separate GPUs, and no run of them was tested"
        ),
        Line("trainer.device", "cpu" if settings.device == "cpu" else "cuda", ("device",)),
        Line("trainer.nnodes", settings.verl.nodes, ("verl.nodes",)),
        Line("trainer.n_gpus_per_node", settings.verl.gpus, ("verl.gpus",)),
        Line("trainer.total_training_steps", update.iterations, ("update.iterations",)),
        Line(
            "trainer.total_epochs",
            math.ceil(update.iterations / rounds) + 1,
            ("update.iterations", "rollout.tasks"),
            "never the limit",
        ),
        Line("trainer.save_freq", max(1, checkpoint.every), ("checkpoint.every",)),
        Line("trainer.max_actor_ckpt_to_keep", checkpoint.keep or None, ("checkpoint.keep",)),
        Line(
            "trainer.test_freq",
            test,
            ("evaluation.every", "evaluation.panel") if evaluation.panel else ("evaluation.panel",),
        ),
        Line("trainer.val_before_train", bool(evaluation.panel), ("evaluation.panel",)),
        Line("trainer.logger", logger, ("log.tensorboard", "log.wandb")),
        Line("trainer.project_name", log.wandb or "creditflow", ("log.wandb",)),
        Line("trainer.experiment_name", Path(settings.out).name, ("out",)),
        Line("trainer.default_local_dir", f"{_folder(settings)}/checkpoints", ("out",)),
        Line("trainer.resume_mode", "auto", (), "continues from the latest checkpoint, if there is one"),
    ]
    if settings.verl.ray:
        lines.append(Line("ray_kwargs.ray_init.address", settings.verl.ray, ("verl.ray",)))
    return lines


def _on_a_cpu(settings: TrainConfig) -> list[Line]:
    """Lines by which verl's trainer runs without a GPU, for tests; the last line of a key wins."""
    why = "for a run without a GPU"
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    ray = {
        "num_cpus": 16,
        "num_gpus": settings.verl.gpus,
        "include_dashboard": False,
        "object_store_memory": 300_000_000,
    }
    values = {
        f"{rollout}.name": "transformers",
        f"{rollout}.free_cache_engine": False,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"{actor}.entropy_from_logits_with_chunking": False,
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile": False,
        "data.dataloader_num_workers": 0,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    slots = [] if settings.verl.ray else [(f"ray_kwargs.ray_init.{name}", value) for name, value in ray.items()]
    return [Line(key, value, ("device",), why) for key, value in [*values.items(), *slots]]


def _loop(settings: TrainConfig, name: str, options: Mapping[str, Any], sources: tuple[str, ...]) -> tuple[Line, ...]:
    """The agent loop's settings, keys as in ``CreditAgentLoop``."""
    rollout = settings.rollout
    prompting = to_plain_data(settings.prompting)
    budget = {"turns": rollout.max_turns, "tokens": rollout.max_tokens}
    names = {key: (f"prompting.{key}",) for key in prompting}
    limits = [Line("budget", budget, ("rollout.max_turns", "rollout.max_tokens"))] if name == NAME else []
    return (
        Line("name", name),
        Line("_target_", LOOP_CLASS),
        Line("env.name", settings.env.name, ("env.name",)),
        Line("env.options", dict(options), sources),
        Line("env.invalid_actions", settings.env.invalid_actions, ("env.invalid_actions",)),
        *(Line(f"prompting.{key}", value, names[key]) for key, value in prompting.items()),
        Line("max_new_tokens", rollout.max_new_tokens, ("rollout.max_new_tokens",)),
        Line("threads", rollout.env_threads > 1, ("rollout.env_threads",), "step environments in threads"),
        *limits,
    )


def _refusals(settings: TrainConfig, facts: Facts) -> Iterator[Remark]:
    """What verl, or this road to it, cannot do."""
    rollout, credit, update, loss = settings.rollout, settings.credit, settings.update, settings.update.loss
    for name, (allowed, section, reason) in ONLY.items():
        if _at(settings, name) != allowed:
            yield Remark((section,), reason)
    if settings.device not in ("auto", "cuda", "cpu"):
        yield Remark(
            ("device",), f"verl takes all GPUs of a node, got {settings.device}: auto, cuda, or cpu for a test"
        )
    if not settings.model.path:
        yield Remark(
            ("model.path",),
            "verl trains a model that exists: train one with update.iterations=0 by creditflow's own trainer, and set "
            "model.path=OUT/model",
        )
    if not settings.prompting.max_context:
        yield Remark(("prompting.max_context",), "verl needs the longest prompt and completion in tokens: set it")
    if rollout.top_p < 1.0 or rollout.top_k:
        yield Remark(
            ("rollout.top_p", "rollout.top_k"),
            "verl's trainer would not renormalise over the tokens that were kept, so the gradient would be another: 1.0 and 0",
        )
    if credit.annotators:
        yield Remark(("credit.annotators",), "verl's advantage step runs no other models or environments: none")
    elif facts.needs and settings.critic.kind == "none":
        yield Remark(
            ("credit.scheme",), f"{credit.scheme} reads {', '.join(facts.needs)}, which annotators or a critic write"
        )
    if not update.iterations:
        yield Remark(("update.iterations",), "there is nothing to train")
    if loss.kl_weight and loss.kl_in == "reward":
        yield Remark(("update.loss.kl_in",), "verl would change rewards token by token after credit is assigned: loss")
    if settings.checkpoint.best:
        yield Remark(("checkpoint.best",), "verl's merger writes OUT/model from the last checkpoint alone: false")
    if update.optimizer.schedule == "linear":
        yield Remark(("update.optimizer.schedule",), "verl's FSDP engine has constant and cosine")
    rows_of_turns = settings.prompting.history == "window"
    aggregation = facts.aggregation if loss.aggregation == "auto" else loss.aggregation
    lacks = {"turn_mean": "verl has no mean over turns", "group_token_mean": "verl has no mean over groups"}
    if aggregation in lacks or (rows_of_turns and aggregation != "token_mean"):
        reason = "with prompting.history: window verl's rows are turns" if rows_of_turns else lacks[aggregation]
        names = ("update.loss.aggregation", *(("credit.scheme",) if loss.aggregation == "auto" else ()))
        yield Remark(names, f"{reason}, so {aggregation} is another mean there: token_mean")


def _batch_refusals(settings: TrainConfig, facts: Facts) -> Iterator[Remark]:
    """Batches that verl cannot divide."""
    rollout, update = settings.rollout, settings.update
    size, names, _ = _minibatch(settings, facts)
    gpus = settings.verl.gpus * settings.verl.nodes
    if facts.tasks < rollout.tasks:
        yield Remark(
            ("rollout.tasks",), f"verl draws tasks without replacement, and there are {facts.tasks}: at most as many"
        )
    if settings.prompting.history == "window":
        if update.minibatches > 1:
            yield Remark(
                ("update.minibatches",),
                "verl's minibatches are of a fixed number of rows, which are turns: set update.minibatch_size and "
                "update.minibatch_unit: turn",
            )
        elif update.minibatch_size and update.minibatch_unit != "turn":
            yield Remark(names, "verl's rows are turns here: update.minibatch_unit: turn")
        elif update.minibatch_size and abs(_divisible_turns(settings) / update.minibatch_size - 1.0) > 0.125:
            yield Remark(
                ("verl.gpus", "verl.nodes", "rollout.group_size", *names),
                f"a minibatch of {update.minibatch_size} turns is not near a multiple of group size and {gpus} GPUs; "
                f"{_divisible_turns(settings)} is one",
            )
    elif update.minibatch_size and update.minibatch_unit != "trajectory":
        yield Remark(names, "verl's rows are episodes here: update.minibatch_unit: trajectory")
    elif rollout.tasks % _count(settings) or size * rollout.group_size % gpus:
        fitting = [
            count
            for count in range(1, rollout.tasks + 1)
            if rollout.tasks % count == 0 and rollout.tasks // count * rollout.group_size % gpus == 0
        ]
        counts = sorted(fitting, key=lambda count: abs(math.log(count / _count(settings))))[:2]
        remedy = " or ".join(f"update.minibatches={count}" for count in counts)
        yield Remark(
            ("verl.gpus", "verl.nodes", "rollout.tasks", *names),
            f"verl's minibatches are of equal numbers of whole groups, and divide over the {gpus} GPUs; {_count(settings)} "
            f"minibatches of {rollout.tasks} groups do not: "
            + (
                f"{remedy}, with update.minibatch_size=0"
                if remedy
                else "choose rollout.tasks and verl.gpus that divide"
            ),
        )
    if settings.prompting.history == "window" and not update.minibatch_size and size * rollout.group_size % gpus:
        yield Remark(("verl.gpus", "verl.nodes"), f"{size * rollout.group_size} rows do not divide over {gpus} GPUs")


def _with_options(lines: list[Line], options: Mapping[str, Any]) -> list[Line]:
    """One line a key, the last one; options replace lines or stand after them."""
    overrides = [Line(key, value, ("verl.options",)) for key, value in options.items()]
    carried: dict[str, tuple[str, ...]] = {}
    for line in lines:
        carried[line.key] = (*carried.get(line.key, ()), *line.settings)
    last = {line.key: line for line in [*lines, *overrides]}
    names = {key: tuple(dict.fromkeys((*line.settings, *carried.get(key, ())))) for key, line in last.items()}
    return [Line(key, line.value, names[key], line.why) for key, line in last.items()]


def _left_out(settings: TrainConfig, carried: set[str]) -> Iterator[Remark]:
    """Settings that no line carries and that differ from their default, with the reason."""
    default = TrainConfig(out=settings.out)
    for name in setting_names(settings):
        if _at(settings, name) == _at(default, name) or any(f"{name}.".startswith(f"{prefix}.") for prefix in carried):
            continue
        section = max((key for key in LEFT_OUT if f"{name}.".startswith(f"{key}.")), key=len)
        yield Remark((name,), LEFT_OUT[section])


def _at(settings: Any, name: str) -> Any:
    for step in name.split("."):
        settings = getattr(settings, step)
    return settings


def _folder(settings: TrainConfig) -> str:
    return str(Path(settings.out).absolute())


def _yaml(lines: tuple[Line, ...], indent: int = 0) -> str:
    """Lines as nested YAML, each value with its source behind it."""
    tree: dict[str, Any] = {}
    for line in lines:
        *sections, leaf = line.key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[leaf] = line
    return "".join(_tree_lines(tree, " " * indent))


def _tree_lines(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Line):
            text = f"{indent}{key}: {_flow(value.value)}"
            yield text + (f"  # {value.source}" if value.source else "") + "\n"
        else:
            yield f"{indent}{key}:\n"
            yield from _tree_lines(value, indent + "  ")


def _flow(value: Any) -> str:
    """Plain data in YAML's flow style, which every reader of YAML takes for the same numbers and texts."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        text = repr(value)  # 1e-06 is a text to YAML 1.1, 1.0e-06 a number
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return json.dumps(value)
