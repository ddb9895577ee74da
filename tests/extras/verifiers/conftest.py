"""The verifiers tier: without verifiers every test is skipped with the reason; ``--require verifiers`` makes that a failure.

Episodes are played by verifiers' own environment, interception server and clients, against a model on the loopback address.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.chat_server import Model, chat_server
from helpers.worlds.sokoban_episodes import sokoban_options

TASKSET = "creditflow_test_tasks"


@pytest.fixture(autouse=True, scope="session")
def verifiers_is_there() -> Iterator[None]:
    pytest.importorskip("verifiers", reason="verifiers is not installed: pip install -e '.[verifiers]'")
    from creditflow.train.adapters.verifiers import tasks

    module = types.ModuleType(TASKSET)  # the one-line module of a user
    for name in (*tasks.__all__, "__all__"):
        setattr(module, name, getattr(tasks, name))
    sys.modules[TASKSET] = module
    module.__spec__ = ModuleSpec(TASKSET, None)  # only its presence is asked for
    logging.getLogger("verifiers").setLevel(logging.ERROR)
    yield
    del sys.modules[TASKSET]


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Options of the environment: Sokoban on three levels of one or two moves."""
    return sokoban_options(tmp_path)


@pytest.fixture
def play(options: dict[str, Any]) -> Callable[..., list[Any]]:
    """Whole groups played by verifiers; keyword arguments are settings of the taskset or of its seat."""

    def run(model: Model | None, *, size: int = 6, client: Any = None, seat: Any = None, **taskset: Any) -> list[Any]:
        from verifiers.v1.clients import EvalClientConfig, ModelContext
        from verifiers.v1.configs.env import EnvConfig
        from verifiers.v1.env import Env
        from verifiers.v1.types import SamplingConfig
        from verifiers.v1.utils.generic import concrete_type
        from verifiers.v1.utils.loaders import environment_class, load_environment

        kind = concrete_type(environment_class(TASKSET), EnvConfig, origin=Env)
        assert kind is not None
        settings = {"id": TASKSET, "env": "sokoban", "options": options, **taskset}
        env = load_environment(kind(taskset=settings, **({"player": seat} if seat else {})))

        async def episodes(client: Any) -> list[Any]:
            context = ModelContext(model="toy", client=client, sampling=SamplingConfig())
            async with env.serving():
                slots = [slot for task in env.taskset for slot in env.slots(task, size)]
                return list(await asyncio.gather(*(env.run_slot(slot, context) for slot in slots)))

        if client is not None:
            return asyncio.run(episodes(client))
        assert model is not None
        with chat_server(model) as url:
            return asyncio.run(episodes(EvalClientConfig(base_url=url, api_key_var="CREDITFLOW_NO_KEY")))

    return run
