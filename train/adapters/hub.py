"""An environment of ours as a folder for a hub: OpenEnv's server, a taskset of verifiers, a resource server of NeMo Gym.

``creditflow new hub-package sokoban --for verifiers`` writes one. It contains no code but what names the environment, and plays
the panels that creditflow contains, so that nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from creditflow import __version__
from creditflow.envs.errors import check_name
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.adapters.text_episode import panel_tasks
from creditflow.train.settings.schema import EnvConfig

__all__ = ["ENVIRONMENTS", "HUBS", "write_hub_package"]

HUBS: Final = ("openenv", "verifiers", "nemo-gym")
_TAGGED: Final = {"prompt": "think-v1", "dialect": "think"}
ENVIRONMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sokoban": {"panel": "standard-v1", "options": {"symbols": "ascii"}, "prompting": _TAGGED},
    "alfworld": {"panel": "standard-v3", "options": {}, "prompting": _TAGGED},
    "webshop": {"panel": "standard-v1", "options": {}, "prompting": _TAGGED},
    "wikisearch": {
        "panel": "standard-v1", "options": {"dialect": "search_r1"}, "prompting": {"prompt": "search-v1", "dialect": "bare"},
    },
}  # fmt: skip
EXAMPLES: Final = 5  # rows of NeMo Gym's example data


def write_hub_package(folder: Path, name: str, hub: str) -> None:
    """Write the package of an environment into a folder.

    Args:
        folder: where; it is created.
        name: one of ``ENVIRONMENTS``.
        hub: one of ``HUBS``.

    Raises:
        ConfigError: another name.
        MissingExtraError: OpenEnv, whose types its package describes, is not installed.
    """
    check_name("environment", name, ENVIRONMENTS)
    check_name("hub", hub, HUBS)
    chosen = ENVIRONMENTS[name]
    if hub == "openenv":
        _write_openenv(folder, name, chosen)
        return
    module = f"creditflow_{name}"
    values: dict[str, Any] = {
        "name": name, "module": module, "dashed": module.replace("_", "-"), "version": __version__, "panel_name": chosen["panel"],
        "description": f"{name} of creditflow: an agent plays it by text, and every episode ends with a record of its turns.",
        "env": repr(name), "options": repr(chosen["options"]), "prompting": repr(chosen["prompting"]),
        "panel": repr(f"{chosen['panel']}:train"),
    }  # fmt: skip
    if hub == "verifiers":
        templates = {f"{module}.py": "tasks", "pyproject.toml": "pyproject", "README.md": "README"}
        texts = {file: _filled(f"verifiers/{template}", values) for file, template in templates.items()}
    else:
        templates = {"app.py": "app", "requirements.txt": "requirements", "README.md": "README"}
        texts = {file: _filled(f"nemo_gym/{template}", values) for file, template in templates.items()}
        # JSON is YAML
        texts[f"configs/{module}.yaml"] = json.dumps(_nemo_gym_settings(name, module), indent=2) + "\n"
        texts["data/example.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in _nemo_gym_rows(name, module))
    for file, text in texts.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path, encoding="utf-8") as stream:
            stream.write(text)


def _write_openenv(folder: Path, name: str, chosen: Mapping[str, Any]) -> None:
    from creditflow.train.adapters.releases import OPENENV

    OPENENV.require()
    from creditflow.train.adapters.openenv.environment import Served
    from creditflow.train.adapters.openenv.package import write_package
    from creditflow.train.adapters.openenv.server import SessionLimits

    served = Served(name=name, options={**chosen["options"], "panel": chosen["panel"]}, observation="text")
    write_package(folder, served, SessionLimits())


def _nemo_gym_settings(name: str, module: str) -> dict[str, Any]:
    """The configuration of the server and of the gymnasium agent that plays it."""
    chosen = ENVIRONMENTS[name]
    play = {"env": {"name": name, "options": chosen["options"]}, "prompting": chosen["prompting"]}
    server = {"entrypoint": "app.py", "domain": "games", "verified": False, "play": play}
    data = {"name": "example", "type": "example", "jsonl_fpath": f"resources_servers/{module}/data/example.jsonl"}
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": module},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "datasets": [data],
    }
    return {
        module: {"resources_servers": {module: server}},
        f"{module}_agent": {"responses_api_agents": {"gymnasium_agent": agent}},
    }


def _nemo_gym_rows(name: str, module: str) -> list[dict[str, Any]]:
    chosen = ENVIRONMENTS[name]
    env = EnvConfig(name=name, options=dict(chosen["options"]))
    tasks = panel_tasks(env, panel=f"{chosen['panel']}:train", count=EXAMPLES)
    agent = {"type": "responses_api_agents", "name": f"{module}_agent"}
    return [
        {
            "responses_create_params": {"input": []},
            "agent_ref": agent,
            "task_id": task.task_id,
            "task": json.dumps(dict(task.content)),
        }
        for task in tasks
    ]


def _filled(template: str, values: Mapping[str, Any]) -> str:
    text = (files("creditflow.assets") / "templates" / f"{template}.txt").read_text("utf-8")
    return Template(text).substitute(values)
