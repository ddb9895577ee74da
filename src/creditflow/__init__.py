"""creditflow: credit assignment for language-model agents.

Importing the package registers the Gymnasium environments (``creditflow/Sokoban-v0``, …) and nothing heavy: torch,
matplotlib and every optional engine are imported by the part that needs them, when it is used.

>>> import creditflow
>>> env = creditflow.make("sokoban")
>>> env.spec.id
'creditflow/Sokoban-v0'
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent  # of a package in the file system's root, that root: `parents` would end
if not (_HERE / "envs").is_dir() and (_ROOT / "envs" / "__init__.py").is_file():
    # a checkout whose links became plain files (a zip download, Windows): its root has what they would have pointed to
    __path__.append(str(_ROOT))

try:
    from creditflow.envs import errors
    from creditflow.envs.errors import CreditflowError
    from creditflow.envs.registration import make, make_vec, register_envs
except ModuleNotFoundError as _error:
    if _error.name in ("creditflow.envs", "creditflow.envs.errors"):
        raise ImportError(
            f"creditflow: the package in {_HERE} has no code, because it was built from a checkout whose symbolic links are "
            "plain files (a zip download, or Windows). Install the checkout with `pip install -e FOLDER`, which needs no links, or a "
            "wheel; or restore the links: `git config core.symlinks true`, then `git checkout -- src/creditflow`."
        ) from _error
    raise
except KeyboardInterrupt:
    if Path(sys.argv[0]).stem != "creditflow":
        raise
    # Ctrl-C while the command starts: nearly all of that time is spent above, before its own report of errors begins
    print("\ninterrupted", file=sys.stderr)
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from creditflow.wrappers import credit

    __version__: str

__all__ = ["CreditflowError", "__version__", "credit", "errors", "make", "make_vec"]


def __getattr__(name: str) -> Any:
    if name == "credit":
        return import_module("creditflow.wrappers.credit")
    if name == "__version__":
        globals()[name] = _version()
        return globals()[name]
    raise AttributeError(f"module 'creditflow' has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # imports email and zipfile: only when it is asked for

    try:
        return version("creditflow")
    except PackageNotFoundError:  # a bare checkout on the path
        return "0+unknown"


register_envs()
