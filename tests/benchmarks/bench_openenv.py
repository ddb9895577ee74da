"""Steps per second of a served Sokoban over those of OpenEnv's own template environment, which echoes a text.

    python tests/benchmarks/bench_openenv.py [--toy] [--seconds 4] [--rounds 3]

The peer is what ``openenv init`` writes, started as its own page says, with more sessions: the ceiling of OpenEnv's stack, since
its step does nothing. Both are played by OpenEnv's client over loopback, in turns: one synchronous client, one asynchronous
client, and eight of them in one process. Beside the rates stands the CPU time of a step in the server and in the clients, which
does not depend on what else the machine does. Sokoban's sends text, state key, admissible actions and eighteen more fields.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of, print_ratio
from helpers.servers.adversary import connect
from helpers.servers.env_server import env_server, free_url

SESSIONS = 8


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def peer_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """OpenEnv's template environment as a server."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "openenv"), "init", "peer", "--output-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        app = Path(folder) / "peer" / "server" / "app.py"
        text = app.read_text(encoding="utf-8")
        assert "max_concurrent_envs=1," in text
        app.write_text(text.replace("max_concurrent_envs=1,", f"max_concurrent_envs={2 * SESSIONS},"), encoding="utf-8")
        url = free_url()
        arguments = ["-m", "uvicorn", "peer.server.app:app", "--port", url.rpartition(":")[2], "--log-level", "error"]
        process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": folder})
        try:
            for _ in range(600):
                try:
                    connect(url).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield url, process
        finally:
            process.kill()
            process.wait()


async def played(url: str, action: dict[str, str], clients: int, seconds: float) -> int:
    """Number of steps of asynchronous clients."""
    from openenv.core import GenericEnvClient

    end, steps = time.perf_counter() + seconds, 0

    async def one(seed: int) -> None:
        nonlocal steps
        async with GenericEnvClient(base_url=url) as client:
            result = await client.reset(seed=seed)
            while time.perf_counter() < end:
                if result.done:
                    result = await client.reset(seed=seed)
                else:
                    result = await client.step(action)
                    steps += 1

    await asyncio.gather(*(one(seed) for seed in range(clients)))
    return steps


def played_synchronously(url: str, action: dict[str, str], seconds: float) -> int:
    """Number of steps of one synchronous client."""
    from openenv.core import GenericEnvClient

    steps = 0
    with GenericEnvClient(base_url=url).sync() as client:
        end, result = time.perf_counter() + seconds, client.reset(seed=0)
        while time.perf_counter() < end:
            result = client.reset(seed=0) if result.done else client.step(action)
            steps += 1
    return steps


def measure(server: tuple[str, subprocess.Popen[bytes]], action: dict[str, str], clients: int, seconds: float) -> Any:
    """Steps per second, and microseconds of CPU time per step in server and clients; 0 clients: a synchronous one."""
    url, process = server
    before, own, began = cpu_seconds(process), time.process_time(), time.perf_counter()
    steps = (
        asyncio.run(played(url, action, clients, seconds)) if clients else played_synchronously(url, action, seconds)
    )
    wall = time.perf_counter() - began
    server_us, client_us = (1e6 * used / steps for used in (cpu_seconds(process) - before, time.process_time() - own))
    return {"steps_per_second": steps / wall, "server_cpu_us": server_us, "client_cpu_us": client_us}


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of a measurement (default 4)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="measurements of each, in turns; the best counts (default 3)"
    )
    args = parser.parse_args()
    if args.toy:
        args.seconds, args.rounds = 0.2, 1
    if not find_spec("openenv"):
        leave_out(
            "OpenEnv's server and clients",
            "not installed here; .ci/venv openenv openenv installs them, and make bench finds them",
        )
        return 0
    levels = ("sokoban", "--panel", "standard-v1", "--max-sessions", str(2 * SESSIONS))
    kinds = {"one synchronous client": 0, "one asynchronous client": 1, f"{SESSIONS} asynchronous clients": SESSIONS}
    with env_server(*levels) as ours, peer_server() as peer:
        for kind, clients in kinds.items():
            found: dict[str, list[Any]] = {"sokoban": [], "peer": []}
            for _ in range(args.rounds):
                found["sokoban"].append(measure(ours, {"action": "up"}, clients, args.seconds))
                found["peer"].append(measure(peer, {"message": "up"}, clients, args.seconds))
            best = {name: max(all_, key=lambda one: float(one["steps_per_second"])) for name, all_ in found.items()}
            ratio = best["sokoban"]["steps_per_second"] / best["peer"]["steps_per_second"]
            for name, one in best.items():
                numbers = (
                    f"{one['steps_per_second']:7.0f} steps/s   CPU µs per step: server {one['server_cpu_us']:4.0f}"
                )
                print(f"{kind:25} {name:8} {numbers}, clients {one['client_cpu_us']:4.0f}")
            print_ratio(f"Sokoban over OpenEnv, {kind}", "OpenEnv's echo environment", ratio)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
