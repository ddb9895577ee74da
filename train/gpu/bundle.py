"""Collect the pure-Python wheels for an offline machine that has torch and transformers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError

__all__ = ["BUNDLED", "MAX_BYTES", "build_bundle"]

# imported by the core and the trainer, and not dependencies of torch and transformers; all pure Python
BUNDLED: Final = ("gymnasium", "farama-notifications", "cloudpickle", "networkx", "typing-extensions", "tqdm")
# expected on the machine: dependencies of torch and transformers, not pure Python
EXPECTED: Final = ("numpy", "pillow", "pyyaml", "safetensors", "tokenizers", "jinja2")
MAX_BYTES: Final = 60 * 2**20


def build_bundle(folder: Path) -> int:
    """Download the wheels with pip and unpack them into ``folder``, to be put on PYTHONPATH.

    Raises:
        DataError: a wheel is not pure, or the bundle is too large.
    """
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(  # noqa: S603 - pip, with names of our own
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", temporary,
             *BUNDLED],
            check=True,
        )  # fmt: skip
        wheels = sorted(Path(temporary).glob("*.whl"))
        impure = [wheel.name for wheel in wheels if not wheel.name.endswith("-none-any.whl")]
        if impure:
            raise DataError(f"not pure Python, so they may not run on the machine: {', '.join(impure)}")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        raise DataError(f"{folder} has {size / 2**20:.1f} MiB, more than {MAX_BYTES // 2**20} MiB")
    print(f"{folder}: {', '.join(wheel.name for wheel in wheels)}; {size / 2**20:.1f} MiB unpacked")
    print(f"expected on the machine: {', '.join(EXPECTED)} (dependencies of torch and transformers)")
    print(f"on the machine: PYTHONPATH=src:{folder} python -m creditflow.train.gpu.script --out figures.json")
    return 0
