"""The packages that ``creditflow new hub-package`` writes for verifiers, installed by pip into a fresh environment and played there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from creditflow.train.adapters.hub import ENVIRONMENTS
from creditflow.train.cli import main

pytestmark = pytest.mark.verifiers

PLAY = """
import asyncio, sys
from helpers.servers.chat_server import chat_server, random_player
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.env import Env
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import environment_class, load_environment, taskset_config_type
from creditflow import credit
from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

name = sys.argv[1]
kind = concrete_type(environment_class(name), EnvConfig, origin=Env)
settings = taskset_config_type(name)(id=name, count=1)
env = load_environment(kind(taskset={"id": name, "count": 1}))

async def play(url):
    client = EvalClientConfig(base_url=url, api_key_var="CREDITFLOW_NO_KEY")
    model = ModelContext(model="toy", client=client, sampling=SamplingConfig())
    async with env.serving():
        slots = [slot for task in env.taskset for slot in env.slots(task, 2)]
        return await asyncio.gather(*(env.run_slot(slot, model) for slot in slots))

chooses = random_player(0)

def player(messages):  # where no action is listed, it searches twice and then answers
    if "Possible actions:" in messages[-1]["content"]:
        return chooses(messages)
    asked = sum(message["role"] == "user" for message in messages)
    return "<search>the capital</search>" if asked < 3 else "<answer>nobody knows</answer>"

with chat_server(player) as url:
    episodes = asyncio.run(play(url))
assert all(episode.ok for episode in episodes), [episode.last_error for episode in episodes]
credit_episodes(episodes, credit.make("grpo"))
turns = min(len(episode.traces[0].info[ADVANTAGES]) for episode in episodes)
print(settings.env, settings.panel, len(episodes), turns >= 2)
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with what the packages require: that of this tier, so that a test downloads nothing."""
    fresh = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    [site] = fresh.glob("lib/python*/site-packages")
    (site / "tier.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return fresh


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_package_is_installed_and_played_in_a_fresh_environment(name: str, fresh: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    assert main(["new", "hub-package", name, "--for", "verifiers", "--out", str(package)]) == 0
    install = ["install", "-qq", "--no-deps", "--no-index", "--no-build-isolation", str(package)]
    python = str(fresh / "bin" / "python")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    assert [file.name for file in fresh.glob(f"lib/python*/site-packages/creditflow_{name}.py")]
    paths = os.pathsep.join(path for path in sys.path if path.endswith(("/src", "/tests")))
    played = subprocess.run(
        [python, "-c", PLAY, f"creditflow_{name}"], check=False, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    assert played.stdout.splitlines()[-1] == f"{name} {ENVIRONMENTS[name]['panel']}:train 2 True"
