"""The one Java virtual machine (JVM) of this process, started when Lucene is first used.

A process has at most one, its memory limit and class path are fixed when it starts, and it does not survive a fork: calls
in a forked child raise an error that names the remedy. All Java code runs in one dedicated thread, whatever thread calls it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from creditflow.envs.errors import ConfigError, MissingExtraError, ServiceError, short_repr
from creditflow.envs.wikisearch.retrieval.engines.java import find_jar, find_java

__all__ = ["DEFAULT_MEMORY", "JavaMachine", "checked_memory", "java_machine"]

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

    Raises:
        MissingExtraError: pyjnius is not installed.
        MissingJavaError: Java or the jar is missing, or too old.
        ServiceError: it does not start, or one without Anserini is already running.
    """

    def __init__(self, memory: str) -> None:
        self.memory, self._process = memory, os.getpid()
        self._pool = ThreadPoolExecutor(1, "java")
        self._jnius = self._pool.submit(self._start).result()

    def _start(self) -> Any:
        try:
            import jnius_config
        except ImportError as error:
            raise MissingExtraError("pyjnius, the bridge to Java,", "lucene") from error
        if jnius_config.vm_running:
            self.memory = ""  # started elsewhere: the limit is unknown
        else:
            jar = find_jar()
            java = find_java(jar)
            jnius_config.set_options(
                f"-Xmx{self.memory}", "-Xrs", "-Djava.awt.headless=true"
            )  # -Xrs: signals stay Python's
            jnius_config.set_classpath(str(jar))
            before = os.environ.get("JAVA_HOME")
            os.environ["JAVA_HOME"] = str(java.home)  # the bridge reads it when it is imported
            try:
                import jnius
            except Exception as error:
                raise ServiceError(f"Java {java.version} in {java.home} does not start: {error}") from error
            finally:
                if before is None:
                    del os.environ["JAVA_HOME"]
                else:
                    os.environ["JAVA_HOME"] = before
        import jnius

        try:
            jnius.autoclass("io.anserini.search.SimpleSearcher")
        except Exception as error:
            raise ServiceError(
                f"the JVM of this process runs without Anserini ({error}): something else started it first. "
                "Open the Lucene engine before that, or put the jar on its class path"
            ) from error
        return jnius

    def call(self, work: Callable[[Any], _Result]) -> _Result:
        """Run ``work`` in the Java thread, with the bridge as its argument.

        Raises:
            ServiceError: this process was forked from the one that started Java.
        """
        if os.getpid() != self._process:
            raise ServiceError(
                "this process was forked from one in which Java runs, and Java does not survive a fork. Start workers with "
                "'spawn', open the engine in each worker, or let them use one `creditflow serve-search`"
            )
        return self._pool.submit(work, self._jnius).result()


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
