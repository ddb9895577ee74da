"""The model that both trainers start from: trained from scratch until it writes the format of completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from benchmarks.peer.work import LEVELS, THOUGHT, Work

from creditflow.agents.language_model.demonstrator import DemonstratingExpert
from creditflow.agents.language_model.parsing import TaggedDialect
from creditflow.agents.scripted import RandomAgent
from creditflow.envs.tasks import Task
from creditflow.train.policy.network.scratch import build_model, build_tokenizer
from creditflow.train.policy.optimizer import OptimizerConfig, learning_rate, make_optimizer
from creditflow.train.policy.sft import sft_plan, sft_rows, sft_step
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, training_tasks
from creditflow.train.settings.schema import TaskConfig

__all__ = ["make_start"]

CANDIDATES, PROBES = 3000, 64  # levels, and random episodes of each
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] }}"
    "{% for call in message.get('tool_calls', []) %}{{ call['function']['name'] }}"
    "{{ call['function']['arguments'] | tojson }}{% endfor %}{{ '<|end|>' }}"
    "{% elif message['role'] == 'system' %}{{ '<|system|>' + message['content'] + '<|end|>' }}"
    "{% else %}{{ '<|user|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)  # a result of a tool is a message of the user: the same ids in both trainers


class Thinking(TaggedDialect):
    """The dialect ``think`` with one fixed thought."""

    def write(self, action: str, thought: str = "") -> str:
        """Render the tags with the thought."""
        return super().write(action, thought or THOUGHT)


def chosen_tasks(work: Work) -> list[Task]:
    """Generated levels on which random episodes of this length have unequal returns, so that every group has a signal."""
    engine = RolloutEngine(group_env_factory(work.env(), PROBES))
    candidates, found = training_tasks(work.env(), TaskConfig(count=CANDIDATES), work.seed), list[Task]()
    for task in candidates:
        (group,) = engine.play(RandomAgent(), [task], seed=work.seed)
        returns = group.arrays.returns
        if 0.4 <= float((returns > returns.min()).mean()) <= 0.6:
            found.append(task)
        if len(found) == work.tasks:
            return found
    raise ValueError(f"only {len(found)} of {CANDIDATES} levels give unequal returns within {work.turns} turns")


def make_start(work: Work, folder: Path) -> dict[str, Any]:
    """Write model and tokenizer into a folder; returns the number of parameters, of ids, and the last loss.

    The model imitates random actions behind a fixed thought, so that it writes completions of one length and every action with
    about equal probability.
    """
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LEVELS).write_text("\n\n".join(task.content["xsb"] for task in chosen_tasks(work)), encoding="ascii")
    tasks = training_tasks(work.env(), TaskConfig(count=64), work.seed + 1)
    texts = [Thinking().write(action) for action in ("up", "down", "left", "right")]
    tokenizer = build_tokenizer(texts * 64, work.network)  # every character of a board is a token
    tokenizer.chat_template = CHAT_TEMPLATE
    model = build_model(work.network, tokenizer, seed=work.seed)
    expert = DemonstratingExpert(work.prompting.conversations(tokenizer), Thinking(), noise=1.0)
    groups = RolloutEngine(group_env_factory(work.env(), 1)).play(expert, tasks, seed=work.seed)
    rows = sft_rows(groups, 0.0)
    if any(len(row) != work.length or len(row.target) != work.turns * work.completion for row in rows):
        raise ValueError(f"episodes of {work.length} tokens were expected, got {sorted({len(row) for row in rows})}")
    config = OptimizerConfig(lr=2e-3, schedule="linear", warmup_fraction=0.1, min_lr_fraction=0.1, betas=(0.9, 0.98))
    optimizer, loss = make_optimizer(model, config), float("nan")
    for step, chosen in enumerate(sft_plan(rows, work.sft_steps, work.sft_rows * work.length, work.seed)):
        loss = sft_step(
            model, optimizer, [rows[i] for i in chosen], micro_tokens=work.sft_rows * work.length, packing="padded",
            logits_chunk=4096, config=config, lr=learning_rate(config, step, work.sft_steps),
        )["loss"]  # fmt: skip
    with torch.no_grad():  # logits twice as large: errors in the format become rare
        model.get_decoder().norm.weight.mul_(2.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"parameters": sum(p.numel() for p in model.parameters()), "vocabulary": len(tokenizer), "loss": loss}
