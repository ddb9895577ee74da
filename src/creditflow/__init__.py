"""creditflow: credit assignment for language-model agents.

Importing the package registers the Gymnasium environments (``creditflow/Sokoban-v0``, …) and nothing heavy: torch,
matplotlib and every optional engine are imported by the part that needs them, when it is used.

>>> import creditflow
>>> env = creditflow.make("sokoban")
>>> env.spec.id
'creditflow/Sokoban-v0'
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from creditflow.envs import errors
    from creditflow.envs.errors import CreditflowError
    from creditflow.envs.registration import make, make_vec, register_envs
except ModuleNotFoundError as _error:
    if not (Path(__file__).parent / "envs" / "__init__.py").is_file():
        raise ImportError(
            "creditflow: src/creditflow/envs is not a folder but a broken symbolic link. A git checkout needs "
            "symbolic links; on Windows clone with `git -c core.symlinks=true clone …`, or install the wheel."
        ) from _error
    raise

if TYPE_CHECKING:
    from creditflow.wrappers import credit

try:
    __version__ = version("creditflow")
except PackageNotFoundError:  # a bare checkout on the path
    __version__ = "0+unknown"

__all__ = ["CreditflowError", "__version__", "credit", "errors", "make", "make_vec"]


def __getattr__(name: str) -> Any:
    if name == "credit":
        return import_module("creditflow.wrappers.credit")
    raise AttributeError(f"module 'creditflow' has no attribute {name!r}")


register_envs()
