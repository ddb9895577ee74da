"""The report as text: what is there first, then what is missing with the command that gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from creditflow.train.doctor.extras import Extra
from creditflow.train.doctor.machine import Found
from creditflow.train.text_table import terminal_width, text_table

__all__ = ["report_text"]

SIZES: Final = "adds: disk space in addition to the core's 115 MB, with the CPU build of torch (CUDA builds take gigabytes more; see train/doctor/EXTRAS.md)"


def report_text(version: str, core: Extra, extras: Sequence[Extra], machine: Sequence[Found]) -> str:
    """The whole report."""
    paragraphs = [f"creditflow {version}", _machine(machine), _core(core)]
    ready = [extra for extra in extras if extra.state == "ready"]
    if ready:
        rows = [("extra", "version", "use"), *((extra.name, _versions(extra), extra.use) for extra in ready)]
        paragraphs.append(text_table(rows, width=terminal_width()))
    not_ready = [extra for extra in extras if extra.state != "ready"]
    if not_ready:
        table = [
            ("extra", "state", "adds", "use", "install"),
            *((extra.name, _state(extra), extra.size or "?", extra.use, extra.remedy) for extra in not_ready),
        ]
        paragraphs.append(f"{text_table(table, width=terminal_width())}\n\n{SIZES}")
    return "\n\n".join(paragraphs)


def _machine(found: Sequence[Found]) -> str:
    width = max(len(finding.name) for finding in found)
    return "\n".join(
        f"{finding.name:{width}}  {finding.value or '-'}{f'  ({finding.remedy})' if finding.remedy else ''}"
        for finding in found
    )


def _core(core: Extra) -> str:
    there = ", ".join(f"{name} {version}" for name, version in core.versions.items())
    lines = [f"needed packages: {there or 'none'}"]
    if core.state != "ready":
        unmet = ", ".join(map(str, (*core.missing, *core.outside)))
        lines.append(f"not as needed: {unmet}; {core.remedy}")
    return "\n".join(lines)


def _versions(extra: Extra) -> str:
    versions = [f"{name} {version}" for name, version in extra.versions.items()][:3]
    return ", ".join(versions) + (" …" if len(extra.versions) > len(versions) else "")


def _state(extra: Extra) -> str:
    if extra.missing:
        names = [requirement.name for requirement in extra.missing]
        return (
            f"{extra.state}: no {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if extra.versions else "missing"
        )
    return f"needs {', '.join(map(str, extra.outside))}; there is " + ", ".join(
        extra.versions[requirement.name] for requirement in extra.outside
    )
