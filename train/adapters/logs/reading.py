"""Importing a log: the library's reader, its groups, and the report of what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from creditflow.envs.errors import check_name
from creditflow.train.adapters.logs.episodes import Episode, ImportSettings, group_episodes
from creditflow.train.adapters.logs.openenv import openenv_episodes
from creditflow.train.adapters.logs.plain_messages import message_episodes
from creditflow.train.adapters.logs.rows import ImportReport, Row, RowError, Rows, Tally, read_rows, require_any
from creditflow.train.adapters.logs.trl import trl_episodes
from creditflow.train.adapters.logs.verifiers import verifiers_episodes
from creditflow.train.adapters.logs.verl import verl_episodes
from creditflow.train.adapters.logs.verl_agent import verl_agent_episodes

__all__ = ["SOURCES", "read_log"]

Reader = Callable[[Rows, ImportSettings, Tally], Iterator[Episode]]
SOURCES: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "messages": message_episodes,
        "openenv": openenv_episodes,
        "trl": trl_episodes,
        "verifiers": verifiers_episodes,
        "verl": verl_episodes,
        "verl-agent": verl_agent_episodes,
    }
)


def read_log(source: str, path: str | Path, settings: ImportSettings | None = None) -> ImportReport:
    """Read another library's log.

    Args:
        source: one of ``SOURCES``.
        path: its file: JSON Lines, a JSON list, a W&B table or Parquet, gzip or not.
        settings: choices that the format leaves open; None: the defaults.

    Raises:
        ConfigError: an unknown source, or a setting that it cannot use.
        DataError: a damaged file, or one of which nothing can be read; with ``settings.strict``, the first row that cannot.
        MissingExtraError: a Parquet file, and pyarrow is not installed.
    """
    check_name("log format", source, SOURCES)
    settings = settings or ImportSettings()
    tally = Tally(settings.strict)

    def counted() -> Iterator[tuple[str, Row | RowError]]:
        for row in read_rows(path):
            tally.rows += 1
            yield row

    log = group_episodes(source, SOURCES[source](counted(), settings, tally), settings, tally)
    require_any(str(path), log.groups, tally)
    return ImportReport(source, log, tally)
