"""Estimators by where their code is, and as a credit scheme, so that everything that scores schemes scores them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.envs.plugins.code import Code, imported, load_code, module_digest
from creditflow.train.bench.estimators.contract import EstimatorFunction, advantages_of, rows_of
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.registry import known, lookup, names, register
from creditflow.wrappers.records.group import Group

__all__ = ["Estimator", "EstimatorScheme", "load_estimator"]


@dataclass(frozen=True)
class Estimator:
    """An estimator of others.

    Attributes:
        spec: what named it.
        name: name of its method in the benchmark, "estimator_" and its function's name.
        of: our scheme of the same name; "" if there is none.
        digest: digest of its module's file.
        released: version and digest of the code that it calls, by module, as its module's ``RELEASED`` names them.
        scheme: the class that scores groups by it.
    """

    spec: str
    name: str
    of: str
    digest: str
    released: dict[str, str]
    scheme: type[EstimatorScheme]


@dataclass(frozen=True, kw_only=True)
class EstimatorScheme(Scheme):
    """Credit by a function of others; every group of a batch is passed at once, as its trainer does."""

    key: Literal["state", "text"] = "state"

    function: ClassVar[EstimatorFunction]
    verification: ClassVar[str] = "code of others"

    def assign(self, group: Group) -> Credit:
        """Score one group as a batch of its own."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score a batch.

        Raises:
            CreditError: the function fails, or returns something else than advantages.
        """
        rows = rows_of(groups, self.key)
        values, _ = advantages_of(self.name, type(self).function, rows)
        ends = np.cumsum([int(group.arrays.offsets[-1]) for group in groups])[:-1]
        advantages = np.split(values, ends)
        return [
            Credit.of(group, outcome=np.zeros(group.arrays.size), step=step)
            for group, step in zip(groups, advantages, strict=True)
        ]


def load_estimator(spec: str) -> Estimator:
    """Load an estimator, which runs its code, and register it as a scheme.

    Args:
        spec: ``package.module:FUNCTION`` or ``path/to/file.py:FUNCTION``; with ``:ARGUMENT`` behind it, the function is called
            with that text and returns the estimator.

    Raises:
        ConfigError: it cannot be loaded, or is no function.
        MissingExtraError: the ``require`` of its module, which is called first if there is one, misses a library.
    """
    code = load_code(spec)
    target = code.target
    if not callable(target):
        raise ConfigError(f"{spec} is not a function of a batch's turns, got {type(target).__name__}")
    require = getattr(_module(code), "require", None)
    if require is not None:
        require()
    if code.rest:
        factory, argument = target, code.rest
        target = imported(lambda: factory(argument), f"the estimator of {spec}")
        if not callable(target):
            raise ConfigError(f"{spec}: {code.spec}({code.rest!r}) did not return a function")
    function = code.spec.rpartition(":")[2]
    name = f"estimator_{_distribution(code)}{function}"
    scheme = _registered(name, target, f"{spec}, {code.digest}")
    return Estimator(spec, name, function if function in names() else "", code.digest, _released(code, target), scheme)


def _registered(name: str, function: EstimatorFunction, source: str) -> type[EstimatorScheme]:
    """The class under this name, which is made once for each source."""
    if known(name) and issubclass(lookup(name), EstimatorScheme) and lookup(name).source == source:
        return cast("type[EstimatorScheme]", lookup(name))
    members = {"name": name, "function": staticmethod(function), "source": source, "__doc__": source}
    return register(dataclass(frozen=True, kw_only=True)(type("Estimated", (EstimatorScheme,), members)))


def _module(code: Code) -> Any:
    return sys.modules.get(getattr(code.target, "__module__", ""))


def _distribution(code: Code) -> str:
    """The prefix of names: the module's short name, so that two libraries' grpo are two methods."""
    module = code.spec.rpartition(":")[0]
    return "" if module.endswith(".py") else module.rpartition(".")[2] + "_"


def _released(code: Code, target: Any) -> dict[str, str]:
    """Version and digest of the modules that ``RELEASED`` of the estimator's module names, and what the estimator itself says."""
    versions = dict(getattr(target, "released", {}))
    for name in getattr(_module(code), "RELEASED", ()):
        module = sys.modules.get(name)
        package = name.partition(".")[0]
        try:
            version = f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            version = package
        versions[name] = f"{version}, {module_digest(module) if module is not None else 'not imported'}"
    return versions
