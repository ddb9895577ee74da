"""Logs as Minari datasets: texts as observations and actions, one episode per trajectory, the log itself beside them.

Minari knows no groups, thoughts, tokens or annotations; ``log.jsonl.gz`` in the dataset's folder has them, and is what is read back.
The observation after the last turn is not part of a log: it is an empty text.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, MissingExtraError
from creditflow.wrappers.records.jsonl import Log, read_log, write_jsonl
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = ["DATASET", "LOG", "read_minari", "write_minari"]

DATASET: Final = "creditflow/log-v0"
LOG: Final = "log.jsonl.gz"


@contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Minari's folder of datasets, which it reads from the environment and opens by its whole path."""
    name, before = "MINARI_DATASETS_PATH", os.environ.get("MINARI_DATASETS_PATH")
    os.environ[name] = str(folder.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def write_minari(folder: Path, log: Log) -> Path:
    """Write a log as the dataset ``creditflow/log-v0`` below a folder; return the dataset's folder.

    Raises:
        MissingExtraError: Minari is not installed.
        DataError: no trajectory has a turn.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise MissingExtraError("Minari", "export") from error
    from gymnasium import spaces

    members = [member for member, _ in log.records() if member.turns]
    if not members:
        raise DataError("no trajectory of the log has a turn, so Minari has nothing to store")
    texts, buffers = list[str](), list[Any]()
    for number, member in enumerate(members):
        observations = [_plain(turn.observation) for turn in member.turns] + [""]
        actions = [_plain(turn.action) for turn in member.turns]
        texts += observations + actions
        before_the_end = [False] * (len(member.turns) - 1)
        buffers.append(
            EpisodeBuffer(
                id=number, observations=observations, actions=actions, rewards=[turn.reward for turn in member.turns],
                terminations=[*before_the_end, member.end != TRUNCATED],
                truncations=[*before_the_end, member.end == TRUNCATED],
            )
        )  # fmt: skip
    charset = "".join(sorted(set("".join(texts))))
    space = spaces.Text(max(1, max(map(len, texts))), min_length=0, charset=charset or " ")
    with _datasets_in(folder), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # it asks for the code, algorithm and authors, which the card asks for
        minari.create_dataset_from_buffers(
            DATASET, buffers, observation_space=space, action_space=space, data_format="arrow",
            description="Rollouts exported by creditflow; the log is log.jsonl.gz next to the data.",
        )  # fmt: skip
    write_jsonl(folder / LOG, log)
    return folder / DATASET


def _plain(text: str) -> str:
    """The text without lone surrogates, which Arrow cannot hold."""
    return text.encode("utf-8", "replace").decode()


def read_minari(folder: str | Path) -> Log:
    """Read the log of an exported dataset.

    Raises:
        DataError: the folder has no log.
    """
    path = Path(folder) / LOG
    if not path.is_file():
        raise DataError(f"{folder}: no {LOG} in this folder; Minari's data alone have no groups, states or tokens")
    return read_log(path)
