"""The report as text: what is there first, then what is missing with the command that gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from creditflow.train.doctor.extras import Extra
from creditflow.train.doctor.machine import Found
from creditflow.train.text_table import text_table

__all__ = ["report_text"]

SIZES: Final = "adds: disk space beside the core's 115 MB, with torch's build for CPUs; builds for CUDA take gigabytes more (train/doctor/EXTRAS.md)"


def report_text(version: str, core: Extra, extras: Sequence[Extra], machine: Sequence[Found]) -> str:
    """The whole report."""
    parts = [f"creditflow {version}", _machine(machine), _core(core)]
    ready = [one for one in extras if one.state == "ready"]
    if ready:
        rows = [("extra", "version", "use"), *((one.name, _versions(one), one.use) for one in ready)]
        parts.append(text_table(rows))
    others = [one for one in extras if one.state != "ready"]
    if others:
        table = [
            ("extra", "state", "adds", "use", "install"),
            *((one.name, _state(one), one.size or "?", one.use, one.remedy) for one in others),
        ]
        parts.append(f"{text_table(table)}\n\n{SIZES}")
    return "\n\n".join(parts)


def _machine(found: Sequence[Found]) -> str:
    width = max(len(one.name) for one in found)
    return "\n".join(
        f"{one.name:{width}}  {one.value or '-'}{f'  ({one.remedy})' if one.remedy else ''}" for one in found
    )


def _core(core: Extra) -> str:
    there = ", ".join(f"{name} {version}" for name, version in core.found.items())
    lines = [f"needed packages: {there or 'none'}"]
    if core.state != "ready":
        wanted = ", ".join(map(str, (*core.missing, *core.outside)))
        lines.append(f"not as needed: {wanted}; {core.remedy}")
    return "\n".join(lines)


def _versions(extra: Extra) -> str:
    shown = [f"{name} {version}" for name, version in extra.found.items()][:3]
    return ", ".join(shown) + (" …" if len(extra.found) > len(shown) else "")


def _state(extra: Extra) -> str:
    if extra.missing:
        names = [one.name for one in extra.missing]
        return f"{extra.state}: no {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if extra.found else "missing"
    return f"needs {', '.join(map(str, extra.outside))}; there is " + ", ".join(
        extra.found[one.name] for one in extra.outside
    )
