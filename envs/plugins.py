"""Plug-ins: schemes, environments and agents whose code is elsewhere, found by a path, a module, or an installed package.

Loading one runs its code, so it happens only where a user asks for it: by ``PATH.py:NAME`` or ``MODULE:NAME`` on the command
line or in a call of ``load``, or by the name of an entry point of a package that was installed. Logs, results, run
folders and settings files may come from strangers: a path in one of them is looked up among what is loaded, and never loaded.

A ``Registry`` holds the schemes, environments or agents under their names. Entry points of installed packages
(``creditflow.schemes``, ``creditflow.environments``, ``creditflow.agents``) are read without importing
anything; one is imported when its name is asked for, so a broken one breaks nothing else. What was loaded in this process is
recorded, for the identity of a run and for the processes that work for it.
"""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import decode_source, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr, unknown_name_error
from creditflow.envs.files.paths import checked_path
from creditflow.envs.foreign.failures import failed_environment
from creditflow.envs.reading.failures import summary

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUPS",
    "Code",
    "Kind",
    "Loaded",
    "PluginError",
    "Registry",
    "failed_in",
    "imported",
    "load_code",
    "loaded",
    "module_digest",
    "names_code",
    "naming_plugins",
]

Kind = Literal["scheme", "environment", "agent"]
GROUPS: Final[dict[Kind, str]] = {
    "scheme": "creditflow.schemes",
    "environment": "creditflow.environments",
    "agent": "creditflow.agents",
}
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # commands separate names by commas, and put arguments behind a colon
T = TypeVar("T")
_SPEC: Final = re.compile(r"(?P<place>.+?\.py|[A-Za-z_]\w*(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?P<rest>:.*)?", re.DOTALL)
_URL: Final = re.compile(r"[A-Za-z]\w*://")


class PluginError(CreditflowError):
    """Code that a command runs for its user failed, or ended the program."""


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


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plug-in.

    Attributes:
        kind, name: what it is registered as.
        code: the object and where it is from.
    """

    kind: Kind
    name: str
    code: Code


_LOADED: dict[tuple[Kind, str], Loaded] = {}


def loaded() -> tuple[Loaded, ...]:
    """Return what was loaded in this process, sorted by kind and name."""
    return tuple(_LOADED[key] for key in sorted(_LOADED))


class Registry(Generic[T]):
    """Entries of one kind by name.

    Args:
        kind: what the entries are, as messages and entry points call it.
        shipped: the package's own entries, unless ``discover`` finds them.
        discover: imports the modules of the package that call ``add``: those of a name before that name is looked up, or all
            of them for "", once, when entries are listed or none has the name.
        name_of: checks that loaded code is of this kind, and returns what it calls itself.
        entry_of: makes the entry of loaded code and its name; by default the object itself.
        noun: the kind in "unknown … 'name'"; by default the kind.
    """

    def __init__(
        self,
        kind: Kind,
        shipped: Mapping[str, T] | None = None,
        *,
        name_of: Callable[[Code], str],
        discover: Callable[[str], None] | None = None,
        entry_of: Callable[[Code, str], T] | None = None,
        noun: str = "",
    ) -> None:
        self.kind: Final = kind
        self.noun: Final = noun or kind
        self._entries: dict[str, T] = dict(shipped or {})
        self._discover = discover
        self._name_of = name_of
        self._entry_of = entry_of

    def entries(self) -> dict[str, T]:
        """Return the entries that are shipped or were loaded, by name, sorted; entry points are not imported."""
        self._discover_once()
        return {name: self._entries[name] for name in sorted(self._entries)}

    def shipped(self) -> tuple[str, ...]:
        """Return the names of all entries except plug-ins, sorted."""
        return tuple(name for name in self.entries() if (self.kind, name) not in _LOADED)

    def installed(self) -> tuple[str, ...]:
        """Return the names that installed packages give to plug-ins of this kind, sorted; nothing is imported."""
        return tuple(sorted({point.name for point in _points(self.kind)}))

    def is_plugin(self, name: str) -> bool:
        """Whether a name is that of a plug-in: loaded, or of an installed package, which is imported."""
        return name in self and (self.kind, name) in _LOADED

    def __contains__(self, name: str) -> bool:
        """Whether a name is shipped, loaded, or an entry point of an installed package, which is imported.

        Raises:
            ConfigError: the entry point is broken, or the name is that of code which was not loaded.
        """
        self.require_no_code(name)
        if name not in self._entries and self._discover is not None:
            self._discover(name)
        if name not in self._entries:
            self._discover_once()
        if name not in self._entries and (code := self._installed_code(name)) is not None:
            self._add_code(code, name)
        return name in self._entries

    def get(self, name: str) -> T:
        """Return the entry of a name, or of the spec of code that was loaded.

        Raises:
            ConfigError: the name is unknown (the message suggests the nearest one), or names code that was not loaded.
        """
        name = self.loaded_name(name) or name
        if name not in self:
            raise unknown_name_error(self.noun, name, {*self.entries(), *self.installed()})
        return self._entries[name]

    def add(self, name: str, entry: T) -> T:
        """Add an entry; the same one twice changes nothing.

        Raises:
            ConfigError: the name is no name, or belongs to another entry.
        """
        self._check_name(name)
        if self._entries.setdefault(name, entry) is not entry:
            qualified = getattr(entry, "__qualname__", "") or short_repr(entry)
            raise ConfigError(f"{getattr(entry, '__module__', '')}.{qualified}: {self._taken(name)}")
        return entry

    def load(self, spec: str, *, digest: str = "") -> str:
        """Load code by where it is, register it, and return its name. This runs the code.

        Args:
            spec: ``path/to/file.py:NAME`` or ``package.module:NAME``, after which ``:ARGUMENT`` may follow, which is returned
                behind the name.
            digest: the expected digest of the code; "" for any.

        Raises:
            ConfigError: it cannot be imported, is not of this kind, has a name that is taken, or another digest.
        """
        code = load_code(spec)
        if digest and code.digest != digest:
            raise ConfigError(f"{spec} has changed since the command began: {code.digest}, expected {digest}")
        name = self._add_code(code)
        return f"{name}:{code.rest}" if code.rest else name

    def loaded_name(self, spec: str) -> str | None:
        """Return the name under which a spec was loaded; None if it was not."""
        source = ":".join(spec.split(":")[:2])
        specs = {plugin.code.spec: plugin.name for plugin in loaded() if plugin.kind == self.kind}
        return specs.get(spec, specs.get(source))

    def require_no_code(self, name: str) -> None:
        """Check that a name does not name code that was not loaded.

        Raises:
            ConfigError: it does; the message says how to load it.
        """
        if names_code(name):
            raise ConfigError(
                f"{self.kind} {name!r} is code, which runs only if you load it yourself, because a settings file, log or run "
                f"folder may come from someone else. Use --load {name} on the command line, or the load function of its registry"
            )

    def rows(self) -> list[dict[str, str]]:
        """Return the plug-ins for a table: name, origin, and why one cannot be used ("" if it can).

        Those of installed packages are imported, each by itself; a broken one is a row with its error.
        """
        shipped = self.shipped()
        rows = {
            plugin.name: {"name": plugin.name, "origin": plugin.code.spec, "error": ""}
            for plugin in loaded()
            if plugin.kind == self.kind
        }
        for name in self.installed():
            origin = "; ".join(map(_origin, self._points_of(name)))
            if name in rows:
                rows[name]["origin"] = origin
                continue
            error = (
                f"creditflow has {self.kind} {name!r} itself, which is used" if name in shipped else self._error(name)
            )
            rows[name] = {"name": name, "origin": origin, "error": error}
        return [rows[name] for name in sorted(rows)]

    def _error(self, name: str) -> str:
        try:
            self.get(name)
        except ConfigError as error:
            return str(error)
        return ""

    def _discover_once(self) -> None:
        if self._discover is None:
            return
        discover, self._discover = self._discover, None  # what it imports may look names up
        try:
            discover("")
        except BaseException:
            self._discover = discover
            raise

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"the name of {_an(self.kind)} must be one word of letters, digits, _ and -, got {short_repr(name)}"
            )

    def _taken(self, name: str) -> str:
        entry, plugin = self._entries[name], _LOADED.get((self.kind, name))
        if isinstance(entry, type):
            source = f"{entry.__module__}.{entry.__qualname__}"
        else:
            source = plugin.code.spec if plugin is not None else f"creditflow's own {self.kind} {name!r}"
        return f"{_an(self.kind)} named {name!r} exists already: {source}"

    def _add_code(self, code: Code, name: str = "") -> str:
        """Register loaded code, under the name of its entry point if there is one; return its name."""
        called = self._name_of(code)
        if name and called != name:
            raise ConfigError(
                f"{code.spec}: its entry point is called {name!r}, but the {self.kind} is called {called!r}"
            )
        try:
            self._check_name(called)
        except ConfigError as error:
            raise ConfigError(f"{code.spec}: {error}") from error
        self._discover_once()
        plugin = _LOADED.get((self.kind, called))
        if plugin is None or plugin.code.target is not code.target:
            if called in self._entries and self._entries[called] is not code.target:
                raise ConfigError(f"{code.spec}: {self._taken(called)}")
            self._entries[called] = self._entry_of(code, called) if self._entry_of is not None else code.target
        _LOADED[self.kind, called] = Loaded(self.kind, called, code)
        return called

    def _installed_code(self, name: str) -> Code | None:
        """Import the entry point of a name; None if no installed package has it.

        Raises:
            ConfigError: several packages have it, or its import fails; the message names the packages.
        """
        points = self._points_of(name)
        if not points:
            return None
        if len(points) > 1:
            raise ConfigError(
                f"{self.kind} {name!r} is in several installed packages: {'; '.join(map(_origin, points))}; uninstall all but "
                "one, or pass the code as MODULE:NAME"
            )
        [point] = points
        target = imported(point.load, f"{self.kind} {name!r} of {_origin(point)}")
        return Code(f"{point.value}", target, module_digest(sys.modules[point.module]))

    def _points_of(self, name: str) -> list[EntryPoint]:
        """The distinct entry points of a name; a package that is found twice on the path counts once."""
        distinct = {_origin(point): point for point in _points(self.kind) if point.name == name}
        return [distinct[origin] for origin in sorted(distinct)]


def _points(kind: Kind) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # imports email and zipfile: only when plug-ins are looked for

    return tuple(entry_points(group=GROUPS[kind]))


def _origin(point: EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unnamed package"
    return f"{package} ({point.value})"


def _an(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def failed_in(error: BaseException) -> str:
    """Return where in a plug-in or foreign environment an error was raised, "" if in none."""
    files = {getattr(sys.modules.get(plugin.code.target.__module__), "__file__", None): plugin for plugin in loaded()}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if (plugin := files.get(frame.filename)) is not None:
            return f"{plugin.kind} {plugin.name!r} ({frame.filename}, line {frame.lineno})"
    return failed_environment(error)


@contextmanager
def naming_plugins() -> Iterator[None]:
    """Convert whatever a plug-in or foreign environment raises into an error that names it.

    What it raises may have a meaning for the code that called it: ``SystemExit`` ends a program with success, ``StopIteration``
    ends a loop, ``BrokenPipeError`` means that nobody reads the output. Another process receives the error without its traceback.
    Our own errors, interrupts and whatever no plug-in raised pass unchanged.

    Raises:
        PluginError: a plug-in failed, or any code ended the program.
    """
    try:
        yield
    except (CreditflowError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        culprit = failed_in(error) or "the code that this command runs"
        raise PluginError(
            f"{culprit} ended the program, by sys.exit({error.code!r}); raise an error instead"
        ) from error
    except BaseException as error:
        stopped = error.__cause__ if isinstance(error, RuntimeError) else None
        raised = stopped if isinstance(stopped, StopIteration) else error  # which a generator converts
        if culprit := failed_in(raised):
            raise PluginError(f"{culprit} failed: {summary(raised)}") from error
        raise
