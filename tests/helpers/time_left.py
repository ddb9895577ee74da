"""Says now and then how many tests are done and how long is left: ``pytest --time-left``, as ``make test`` runs it."""

from __future__ import annotations

import time

import pytest

from creditflow.train.progress import duration_text

EVERY = 20.0  # seconds between two lines


class TimeLeft:
    """A plugin of the process that starts the workers.

    Args:
        config: of pytest.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._began, self._done = config, time.monotonic(), 0
        self._last = self._began
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """The session knows how many tests there are, once they are collected."""
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the tests that ended."""
        self._done += report.when == "teardown"
        now, total = time.monotonic(), self._session.testscollected if self._session else 0
        if now - self._last < EVERY or not 0 < self._done < total:
            return
        self._last = now
        left = duration_text((now - self._began) / self._done * (total - self._done))
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(
                f"\n{self._done} of {total} tests after {duration_text(now - self._began)}, about {left} left"
            )
