"""One registry for everything that a user names: what the package ships, a user's own code, and installed packages.

A ``Registry`` holds the schemes, environments, agents or metrics under their names. Entry points of installed packages
(``creditflow.schemes``, ``creditflow.environments``, ``creditflow.agents``, ``creditflow.metrics``) are read without importing
anything; one is imported when its name is asked for, so a broken one breaks nothing else. What was loaded in this process is
recorded, for the identity of a run and for the processes that work for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.plugins.code import Code, imported, load_code, module_digest, names_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Kind", "Loaded", "Registry", "loaded"]

Kind = Literal["scheme", "environment", "agent", "metric"]
GROUPS: Final[dict[Kind, str]] = {
    "scheme": "creditflow.schemes",
    "environment": "creditflow.environments",
    "agent": "creditflow.agents",
    "metric": "creditflow.metrics",
}
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # commands separate names by commas, and put arguments behind a colon
T = TypeVar("T")


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
