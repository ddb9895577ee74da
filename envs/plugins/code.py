"""Objects by where their code is: ``path/to/file.py:NAME`` or ``package.module:NAME``."""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import decode_source, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr, unknown_name_error
from creditflow.envs.files.paths import checked_path

__all__ = ["Code", "imported", "load_code", "module_digest", "names_code"]

_SPEC: Final = re.compile(r"(?P<place>.+?\.py|[A-Za-z_]\w*(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?P<rest>:.*)?", re.DOTALL)
_URL: Final = re.compile(r"[A-Za-z]\w*://")


@dataclass(frozen=True, slots=True)
class Code:
    """An object and where it is from.

    Attributes:
        spec: what named it.
        target: the object.
        digest: "blake2b:" and 32 hexadecimal digits over its module's file, without what that imports.
        rest: what followed the name after another colon.
    """

    spec: str
    target: Any
    digest: str
    rest: str = ""

    @property
    def file(self) -> Path | None:
        """The file of a spec that has a path."""
        source = self.spec.rpartition(":")[0]
        return Path(source) if source.endswith(".py") else None


def names_code(text: str) -> bool:
    """Whether a text is a place of code; a module without a dot could be another name with an argument.

    >>> [names_code(text) for text in ("my.py:Mine", "pkg.mod:Mine", "grpo", "noisy:0.3", "hf:runs/model", "C:/my.py:Mine")]
    [True, True, False, False, False, True]
    """
    match = _SPEC.fullmatch(text)
    if match is None or _URL.match(text):
        return False
    return match["place"].endswith(".py") or "." in match["place"]


def load_code(spec: str) -> Code:
    """Import an object. This runs code: call it only with what the user of this process named.

    A file is imported alone, under a name made of its content: modules beside it are not importable from it, and equal
    content is one module.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``, after which ``:ARGUMENT`` may follow.

    Raises:
        ConfigError: another form, no such file, module or name, or the import fails; the message says where.
    """
    match = None if _URL.match(spec) else _SPEC.fullmatch(spec)
    if match is None and spec.endswith(".py"):
        raise ConfigError(_without_name(spec))
    if match is None:
        raise ConfigError(f"expected path/to/file.py:NAME or package.module:NAME, got {short_repr(spec, 200)}")
    source, name = match["place"], match["name"]
    module, digest = _from_file(source, spec) if source.endswith(".py") else _from_module(source, spec)
    if not hasattr(module, name):
        public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        defined = [key for key, value in public.items() if getattr(value, "__module__", "") == module.__name__]
        raise unknown_name_error(f"name in {source}", name, defined or public)
    return Code(f"{source}:{name}", getattr(module, name), digest, (match["rest"] or "")[1:])


def _without_name(place: str) -> str:
    """What is missing in the spec of a file alone: the classes and functions of its text, which is read and not run."""
    try:
        tree = ast.parse(checked_path("the file of a plug-in", place).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        return f"{place} cannot be read: {getattr(error, 'strerror', None) or error}; expected path/to/file.py:NAME"
    nodes = [node for kind in (ast.ClassDef, ast.FunctionDef) for node in tree.body if isinstance(node, kind)]
    specs = [f"{place}:{node.name}" for node in nodes if not node.name.startswith("_")]
    if not specs:
        return f"{place} defines no class and no function; expected path/to/file.py:NAME"
    return f"{place} is a file; name what you mean in it: {' or '.join(specs[:5])}"


def imported(work: Callable[[], Any], what: str, file: str = "") -> Any:
    """Return what an import of a plug-in's code returns, with any failure as one error.

    Args:
        work: imports it.
        what: name of the code, for the message.
        file: path of the code, to find the line that failed.

    Raises:
        ConfigError: the import failed; the message names the error, and the line in ``file``.
    """
    try:
        return work()
    except CreditflowError as error:
        raise ConfigError(f"{what} cannot be loaded: {error}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        if isinstance(error, SyntaxError):
            lines = [error.lineno]
        line = lines[-1] if lines else None
        where = f" (line {line})" if line else ""
        raise ConfigError(f"{what} cannot be loaded{where}: {type(error).__name__}: {error}") from error


class _ReadSource(InspectLoader):
    """Loads a module from the bytes that were digested, not from a file that may have changed since, nor from a compiled one."""

    def __init__(self, source: bytes, file: str) -> None:
        self._source, self._file = source, file

    def get_source(self, _name: str) -> str:
        """Return the text of the module."""
        return decode_source(self._source)

    def get_code(self, _name: str) -> CodeType:
        """Return the compiled module."""
        return self.source_to_code(self._source, self._file)


def _from_file(place: str, spec: str) -> tuple[ModuleType, str]:
    path = checked_path("the file of a plug-in", place).absolute()  # tracebacks name the file as the module does
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{spec}: the file cannot be read: {error.strerror or error}") from error
    digest = blake2b(source, digest_size=16).hexdigest()
    name = f"creditflow_plugin_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{digest[:16]}"
    if name not in sys.modules:
        loader = _ReadSource(source, str(path))
        module_spec = spec_from_file_location(name, path, loader=loader)
        if module_spec is None:
            raise ConfigError(f"{spec}: not a Python file")
        module = module_from_spec(module_spec)
        sys.modules[name] = module  # dataclasses look their module up while it is imported
        try:
            imported(partial(loader.exec_module, module), spec, str(module.__file__))
        except ConfigError:
            del sys.modules[name]
            raise
    return sys.modules[name], f"blake2b:{digest}"


def _from_module(place: str, spec: str) -> tuple[ModuleType, str]:
    module = imported(partial(_import, place), spec)
    return module, module_digest(module)


def _import(place: str) -> ModuleType:
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if not f"{place}.".startswith(f"{error.name}."):
            raise  # of something that the module imports
        raise ConfigError(
            f"there is no module {error.name!r}; install its package, or pass its file: path/to/file.py:NAME"
        ) from error


def module_digest(module: ModuleType) -> str:
    """Return the digest of a module's file; of one without a file, "unknown"."""
    file = getattr(module, "__file__", None)
    if not file or not Path(file).is_file():
        return "unknown"
    return f"blake2b:{blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()}"
