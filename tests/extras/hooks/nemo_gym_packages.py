"""Hub packages for NeMo Gym, each started by NeMo Gym's own web server, play an episode over HTTP.

  python tests/extras/hooks/nemo_gym_packages.py

For an environment with NeMo Gym and creditflow's wheel, and without the tests' packages.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from creditflow.train.adapters.hub import ENVIRONMENTS
from creditflow.train.cli import main as creditflow
from creditflow.wrappers.credit.bridge import FIELD, read_record

ACTIONS: Final = {"wikisearch": "<search>the capital</search>"}  # of the others an invalid action, which costs a turn
STARTED: Final = 120  # seconds


def free_port() -> int:
    """A port of this host that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def completion(text: str) -> dict[str, Any]:
    """A model's response in the form of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    fields = {"id": "r", "created_at": 0, "model": "m", "object": "response", "parallel_tool_calls": False}
    return {**fields, "output": [message], "tool_choice": "auto", "tools": []}


class Server:
    """The ``app.py`` of a package, started with the settings that NeMo Gym passes to it."""

    def __init__(self, folder: Path) -> None:
        name, self._port = folder.name, free_port()
        settings = json.loads((folder / "configs" / f"{name}.yaml").read_text("utf-8"))  # JSON is YAML
        settings[name]["resources_servers"][name] |= {"host": "127.0.0.1", "port": self._port}
        settings |= {"head_server": {"host": "127.0.0.1", "port": free_port()}, "dry_run": False}
        settings |= {"ray_head_node_address": None, "uvicorn_logging_show_200_ok": False, "profiling_enabled": False}
        variables = {"NEMO_GYM_CONFIG_DICT": json.dumps(settings), "NEMO_GYM_CONFIG_PATH": name}
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "app.py"], cwd=folder, env=os.environ | variables, stdout=log, stderr=log
            )
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Reply to a request; waits for the server to start."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", json.dumps(body).encode(), headers)
        until = time.monotonic() + STARTED
        while True:
            try:
                reply: dict[str, Any] = json.loads(self._opener.open(request, timeout=60).read())
                return reply
            except urllib.error.HTTPError:
                raise
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the server did not start:\n{self._log.read_text()[-2000:]}") from None
                time.sleep(1)

    def close(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait()


def play(name: str, folder: Path) -> int:
    """Make the package of an environment in ``folder`` and play its first row; returns the number of turns."""
    if creditflow(["new", "hub-package", name, "--for", "nemo-gym", "--out", str(folder)]) != 0:
        raise RuntimeError(f"no package for {name}")
    row = json.loads((folder / "data" / "example.jsonl").read_text("utf-8").splitlines()[0])
    action = ACTIONS.get(name, "<action>wait</action>")
    server = Server(folder)
    try:
        if not server.post("/reset", row)["observation"]:
            raise RuntimeError(f"{name}: no prompt")
        replies = [server.post("/step", {**row, "response": completion(action)})]
        while not (replies[-1]["terminated"] or replies[-1]["truncated"]):
            replies.append(server.post("/step", {**row, "response": completion(action)}))
    finally:
        server.close()
    trajectory, _ = read_record(replies[-1]["info"][FIELD], "a")
    if not len(trajectory.turns) == len(replies) >= 2:
        raise RuntimeError(f"{name}: the record has {len(trajectory.turns)} of {len(replies)} turns")
    return len(replies)


def main() -> None:
    """Play every package."""
    with TemporaryDirectory() as folder:
        for name in ENVIRONMENTS:
            print(f"{name}: {play(name, Path(folder) / f'creditflow_{name}')} turns", flush=True)


if __name__ == "__main__":
    main()
