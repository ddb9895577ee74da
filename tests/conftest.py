"""Settings of the whole test suite: Hypothesis draws the same examples every time in CI, and skips can be forbidden."""

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--require MARK``: where a component was installed on purpose, a test of it that is skipped is a failure."""
    parser.addoption(
        "--require", action="append", default=[], metavar="MARK", help="a test with this mark that is skipped fails"
    )


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test loads as plug-ins is forgotten after it."""
    from helpers.plugins import registries_restored

    yield from registries_restored(monkeypatch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = [mark for mark in item.config.getoption("--require") if item.get_closest_marker(mark)]
    if report.skipped and required:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome, report.longrepr = "failed", f"{required[0]} is required here, but: {reason}"
    return report
