"""The files that OpenEnv's tools expect of an environment: manifest, environment card, Dockerfile, application."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from creditflow import __version__
from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.adapters.openenv.client import FullObservation, TextObservation
from creditflow.train.adapters.openenv.environment import Served
from creditflow.train.adapters.openenv.server import SessionLimits

__all__ = ["manifest", "write_package"]

BEST: Final = {"": 1.0, "sparse": 1.0, "score": 1.0, "ten": 10.0}  # largest return of each reward
EPISODE_SECONDS: Final = (
    3600.0  # the longest that OpenEnv's policy allows: a language model may think before each action
)
MEMORY_MB: Final = 1024


def manifest(served: Served) -> dict[str, Any]:
    """Return the manifest ``openenv.yaml``.

    Raises:
        ConfigError: the range of the reward is not known, which a manifest declares.
    """
    best = BEST.get(served.options.get("reward", ""))
    if best is None or served.shaping is not None:
        raise ConfigError(
            "a package declares the range of its reward, which is known for the environment's reward without shaping, and "
            f"of the kinds {', '.join(kind for kind in BEST if kind)}"
        )
    counts = dict(Counter(row.split for row in served.rows))
    capabilities: dict[str, Any] = {"verifier": {"kind": "reward_channel"}, "set_state": True, "task_api": bool(counts)}
    if counts:
        capabilities["declared_task_count"] = counts
    return {
        "spec_version": 1,
        "name": served.name,
        "version": __version__,
        "description": served.description,
        "type": "space",
        "runtime": "fastapi",
        "app": "server.app:app",
        "port": 8000,
        "validation": {
            "reward": {"range": [0.0, best], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {"cpu": 1.0, "memory_mb": MEMORY_MB, "disk_mb": 512, "episode_timeout_s": EPISODE_SECONDS},
            "network": {"mode": "no-network"},
            "capabilities": capabilities,
            "types": {"tags": ["creditflow", served.name]},
        },
    }


def write_package(folder: Path, served: Served, limits: SessionLimits) -> None:
    """Write the files into a folder; ``openenv validate FOLDER`` reads them, ``docker build FOLDER`` makes the image.

    Raises:
        ConfigError: see ``manifest``, or an option that names a file of this machine.
    """
    for name, value in served.options.items():
        if isinstance(value, str) and Path(value).exists():
            raise ConfigError(f"a package has no files of this machine, but {name} names one: {value}")
    described = manifest(served)
    _, base = served.open()
    _, info = base.reset(seed=0)
    options = ["--observation", served.observation]
    options += ["--max-sessions", str(limits.sessions), "--idle-seconds", str(limits.idle_seconds)]
    options += [
        argument for name, value in served.options.items() for argument in ("--env-set", f"{name}={json.dumps(value)}")
    ]
    fields = sorted(FullObservation.model_fields.keys() - TextObservation.model_fields.keys())
    values = {
        "name": served.name,
        "version": __version__,
        "description": served.description,
        "options": ", ".join(map(json.dumps, options)),
        "tasks": f"{len(served.rows)} tasks." if served.rows else "Its tasks are endless.",
        "fields": "; for the trainer " + ", ".join(f"`{name}`" for name in fields)
        if served.observation == "full"
        else "",
        "reward": f"of the environment; the best return is {described['validation']['reward']['range'][1]:g}",
        "max_steps": base.max_steps,
        "example": next(iter(info["admissible_actions"]), ""),
    }
    code = {"name": served.name, "options": dict(served.options), "observation": served.observation}
    texts = {
        "openenv.yaml": json.dumps(described, indent=2) + "\n",  # JSON is YAML
        "Dockerfile": _filled("Dockerfile", values),
        "README.md": _filled("README", values),
        "server/__init__.py": "",
        "server/app.py": _filled("app", {name: repr(value) for name, value in code.items()}),
    }
    (folder / "server").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with atomic_writer(folder / name, encoding="utf-8") as stream:
            stream.write(text)


def _filled(template: str, values: dict[str, Any]) -> str:
    text = (files("creditflow.assets") / "templates" / "openenv" / f"{template}.txt").read_text("utf-8")
    return Template(text).substitute(values)
