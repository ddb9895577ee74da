"""Actions and completions of agents: none raises an error; a rejected action has a reason and does not change the state."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import creditflow
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.envs.core import AgentEnv
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import freeze, mutate_recipe, thaw
from fuzz.samples import ENVS
from fuzz.target import MismatchError, Target

FORMS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "sokoban": ("sokoban", {}, ("up", " Left ", "push right", "3")),
    "sokoban-discrete": ("sokoban", {"action_mode": "discrete", "n_actions": 9}, ("1",)),
    "alfworld": ("alfworld", {}, ("look", "inventory", "go to cabinet 1", "take apple 1 from fridge 1", "open drawer 2")),
    "webshop": ("webshop", {}, ("search[red tent]", "click[back to search]", "click[buy now]", "click[next >]")),
    **{
        f"wikisearch-{dialect}": ("wikisearch", {"dialect": dialect}, texts)
        for dialect, texts in {
            "plain": ("search: old town", "visit: Elm", "answer: unknown", "search: a | b"),
            "search_r1": ("<think>so</think><search>old town</search>", "<answer>unknown</answer>"),
            "pica": ("<think>so</think><search>old town</search>", "<answer>unknown</answer>"),
            "tool_call": ('<tool_call>{"name": "search", "arguments": {"query": ["old town"]}}</tool_call>',
                          '<tool_call>{"name": "visit", "arguments": {"url": "x", "goal": "y"}}</tool_call>'),
        }.items()
    },
}  # fmt: skip
WILD_ACTIONS: tuple[Any, ...] = (
    None, 3, 3.5, True, [], ["up"], {}, "@set@", "@bytes@", "@object@", "@complex@", "@digits:5000@", "@deep:5000@", "", " ",
    "\0", "\ud800", "search[\ud800]", "click[\ud800]", "search[" * 3000, "<search>" * 5000, "<tool_call>" * 5000,
    "{" * 20_000, "a" * 200_000, "search: " + "a " * 100_000, "answer:", "١", "²",
)  # fmt: skip


@lru_cache(maxsize=16)
def _env(form: str) -> AgentEnv[Any, Any, Any]:
    name, options, _ = FORMS[form]
    env = creditflow.make(name, **{**ENVS[name], **options, "max_steps": 40}).unwrapped
    assert isinstance(env, AgentEnv)
    env.reset(seed=1)
    return env


def _step(form: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        env = _env(form)
        if env._over:
            env.reset(seed=1)
        before = env._keys()
        info = env.step(thaw(data))[4]
        if not info["action_valid"] and (not info["invalid_reason"] or info["state_key"] != before[0]):
            raise MismatchError(f"a rejected action has the reason {info['invalid_reason']!r}, or changed the state")
        if len(info["invalid_reason"]) > 4000:
            raise MismatchError("the reason of a rejection repeats the whole action")

    return read


def _samples(texts: list[bytes]) -> Callable[[Path], list[bytes]]:
    return lambda _: texts


def _step_text(form: str) -> Callable[[bytes, Path], None]:
    """Return a reader that takes a step with the bytes as text."""
    step = _step(form)
    return lambda data, folder: step(freeze(data.decode("utf-8", "replace").replace("@", "")), folder)


DIALECTS = (
    "think",
    "action",
    "bare",
    "verl_agent:alfworld",
    "verl_agent:sokoban",
    "verl_agent:webshop",
    "verl_agent:search",
)
COMPLETIONS = (
    "<think>I go up.</think><action>up</action>", "<action>search[red]</action>", "up", "<think>a</think><search>b</search>",
    "<think></think><answer>c</answer>", "Action: look\nThought: so",
)  # fmt: skip


def _parse(data: bytes, _: Path) -> None:
    text = data.decode("utf-8", "replace")
    for name in DIALECTS:
        make_dialect(name).parse(text)


TARGETS = (
    *(
        Target(
            name=f"actions/{form}", read=_step(form), mutate=mutate_recipe, cases=60, seconds=3.0, may_reject=False,
            seeds=_samples([freeze(text) for text in texts]),
            traps=lambda: [freeze(one) for one in WILD_ACTIONS],
        )
        for form, (_, _, texts) in FORMS.items()
    ),
    *(
        Target(
            name=f"actions/{form}-texts", read=_step_text(form),
            mutate=mutate_bytes, cases=60, seconds=3.0, may_reject=False, seeds=_samples([text.encode() for text in texts]),
        )
        for form, (_, _, texts) in FORMS.items()
        if form != "sokoban-discrete"
    ),
    Target(
        name="actions/dialects", read=_parse, seeds=lambda _: [text.encode() for text in COMPLETIONS], mutate=mutate_bytes,
        cases=200, may_reject=False, traps=lambda: [b"<think>" * 20_000, b"<action>" * 20_000, b"</action>" * 20_000, b" " * 300_000],
    ),
)  # fmt: skip
