"""The reference of the Python interface: for every public package what its ``__all__`` names, from the docstrings."""

from __future__ import annotations

from typing import Final

__all__ = ["PACKAGES", "pages"]

# package -> what it is for
PACKAGES: Final = {
    "creditflow": "the main entry points: `make`, `credit` and the errors",
    "creditflow.envs": "environments, their contract, tasks and panels, and the checker",
    "creditflow.envs.errors": "every exception class, in one tree",
    "creditflow.wrappers": "Gymnasium wrappers; turns, trajectories, groups and their logs; graphs",
    "creditflow.wrappers.credit": "credit schemes: make, check, register",
    "creditflow.agents": "agents, which choose actions",
    "creditflow.train.rollout": "functions with which agents play groups",
    "creditflow.train.policy.samples": "training rows: one advantage per token",
    "creditflow.train.run.assemble": "functions that make environments, tasks and agents from settings",
    "creditflow.train.analyses.audit": "the audit of a log",
    "creditflow.train.statistics": "intervals and tests",
}


def pages() -> dict[str, tuple[str, str]]:
    """The index and a page per package."""
    rows = "\n".join(f"- [`{name}`]({file_of(name)}.md): {text}" for name, text in PACKAGES.items())
    tree = "\n".join(file_of(name) for name in PACKAGES)
    index = (
        "# API\n\nEverything exported in `__all__` is public. Everything else may change between releases.\n\n"
        f"{rows}\n\n```{{toctree}}\n:hidden:\n{tree}\n```\n"
    )
    staged = {"reference/api/index": ("", index)}
    for name, text in PACKAGES.items():
        more = "   :no-index:\n" if name == "creditflow" else ""  # what it names is documented where it is defined
        body = f"# {name}\n\n{text[0].upper()}{text[1:]}.\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :show-inheritance:\n{more}```\n"
        staged[f"reference/api/{file_of(name)}"] = ("", body)
    return staged


def file_of(name: str) -> str:
    """The page of a package.

    >>> file_of("creditflow.envs.errors")
    'envs_errors'
    """
    return name.removeprefix("creditflow.").replace(".", "_")
