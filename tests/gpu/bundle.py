"""Download the pure-Python wheels that an offline machine with torch and transformers needs, on a machine with network.

python tests/gpu/bundle.py --out build/wheels
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run_program imports this module by its name
from creditflow.envs.errors import DataError
from creditflow.train.arguments.outputs import Output, add_output, named
from creditflow.train.arguments.programs import run_program

__all__ = ["BUNDLED", "MAX_BYTES", "add_arguments", "build_bundle", "main", "run"]

# imported by the core and the trainer, and not dependencies of torch and transformers; all pure Python
BUNDLED: Final = ("gymnasium", "farama-notifications", "cloudpickle")
# expected on the machine: dependencies of torch and transformers
EXPECTED: Final = ("numpy", "pyyaml", "safetensors", "tokenizers", "jinja2", "networkx", "typing-extensions", "tqdm")
MAX_BYTES: Final = 60 * 2**20
UNPACKED: Final = (*(name.replace("-", "_") + "*" for name in BUNDLED), "*.dist-info")  # entries of the folder


def build_bundle(folder: Path) -> int:
    """Download the wheels with pip and unpack them into ``folder``, to be put on PYTHONPATH.

    Raises:
        DataError: pip cannot download the wheels, a wheel is not pure Python, or the bundle is too large.
    """
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", temporary,
             *BUNDLED],
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise DataError(
                f"pip could not download {', '.join(BUNDLED)} (exit code {done.returncode}, its messages are above); run this on "
                "a machine with network and pip"
            )
        wheels = sorted(Path(temporary).glob("*.whl"))
        impure = [wheel.name for wheel in wheels if not wheel.name.endswith("-none-any.whl")]
        if impure:
            raise DataError(f"not pure Python, so they may not run on the machine: {', '.join(impure)}")
        if folder.exists():  # the program's own: with --force, and nothing else in it
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        raise DataError(f"{folder} has {size / 2**20:.1f} MiB, more than {MAX_BYTES // 2**20} MiB")
    print(f"{folder}: {', '.join(wheel.name for wheel in wheels)}; {size / 2**20:.1f} MiB unpacked")
    print(
        f"expected on the machine: {', '.join(EXPECTED)} (needed by torch and transformers); peft for the piece with LoRA"
    )
    print(f"on the machine: PYTHONPATH=src:{folder} python tests/gpu/run.py")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_output(
        parser, "--out", Output(kind="folder", owned=named(*UNPACKED)), required=True, metavar="DIR",
        help="folder to unpack the wheels into, for PYTHONPATH",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Collect the wheels."""
    return build_bundle(Path(args.out))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("gpu.bundle", arguments, script="tests/gpu/bundle.py")


if __name__ == "__main__":
    sys.exit(main())
