"""PDDL domains that the native rules reproduce.

The rules are code, not an interpreter of PDDL, so a file's domain is compared, action by action, with the domains that
they implement. Comments, letter case and layout are ignored; a changed action is an error.
"""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from creditflow.envs.alfworld.pddl.reading import read_sexpr
from creditflow.envs.errors import DataError

__all__ = ["action_digests", "check_domain"]

# action -> digests of the definitions that `rules.py` implements: those of the released files and of our exporter
KNOWN_ACTIONS: dict[str, frozenset[str]] = {
    "look": frozenset({"bae770758a6aa3f9", "bd20cc4eec8f579f"}),
    "inventory": frozenset({"8583e588c922bbc1", "cc82698e9ca2083c"}),
    "examinereceptacle": frozenset({"a0947c8433d9ea87", "e34f57b8f0ee69b5"}),
    "examineobject": frozenset({"5a5d7b17922ebc61", "913f36393dbed270"}),
    "gotolocation": frozenset({"194c71e29baa94a0", "5c761acebc26f536"}),
    "openobject": frozenset({"932ef3f071531ddb", "949aeff94c99a297"}),
    "closeobject": frozenset({"504d8062e9d539a2", "9ffe9fdff68a3071"}),
    "pickupobject": frozenset({"3664195d8314c792", "9787d98a7be86548"}),
    "putobject": frozenset({"7908bb6e2ade9366", "ee7e316d477037d2"}),
    "cleanobject": frozenset({"7dda2fc178b79c25", "a4f2a2babf5370e6", "ba95680c411b13e1", "6f6a013154d75a2e"}),
    "heatobject": frozenset({"62b800a3d5de9f45", "f53bd04232318ef7"}),
    "coolobject": frozenset({"a0d89c4723cf45d8", "b06ce39a18cd6829"}),
    "toggleobject": frozenset({"525746c0e764af8d", "9833abb9e18428cc"}),
    "sliceobject": frozenset({"2124968344059fd2", "49b176c4485c08e1"}),
    "help": frozenset({"2b35bf5dcde55345", "a5a2f84f6325caee"}),
}
OPTIONAL_ACTIONS = frozenset({"help"})


def check_domain(text: str, source: str) -> frozenset[str]:
    """Return the names of the domain's actions, all of which the native rules implement.

    Raises:
        DataError: another domain; names the actions that differ and what to do.
    """
    names, problem = _compare(text)
    if problem:
        raise DataError(
            f"{source}: the PDDL domain is not the one of ALFWorld's released games ({problem}); the native rules "
            "would not be exact on it. Get the games with alfworld-download, or run this file with backend='textworld'"
        )
    return names


@lru_cache(maxsize=8)  # all files of a release share one domain text
def _compare(text: str) -> tuple[frozenset[str], str]:
    """Return the domain's actions, and their differences from the known ones ("" if there are none)."""
    try:
        digests = action_digests(text, "pddl_domain")
    except DataError as error:
        return frozenset(), str(error)
    missing = sorted(set(KNOWN_ACTIONS) - OPTIONAL_ACTIONS - set(digests))
    foreign = sorted(name for name, digest in digests.items() if digest not in KNOWN_ACTIONS.get(name, ()))
    if missing or foreign:
        return frozenset(), f"missing actions: {missing or 'none'}; unknown or changed actions: {foreign or 'none'}"
    return frozenset(digests), ""


def action_digests(text: str, source: str) -> dict[str, str]:
    """Return a digest of every action of a domain, over its parsed expression.

    Raises:
        DataError: the text is not a PDDL domain.
    """
    expr = read_sexpr(text, source)
    if expr[:2] != ["define", ["domain", "alfred"]]:
        raise DataError(f"{source}: pddl_domain must start with (define (domain alfred) …)")
    digests: dict[str, str] = {}
    for section in expr[2:]:
        if isinstance(section, list) and len(section) > 1 and section[0] == ":action" and isinstance(section[1], str):
            digests[section[1]] = _digest(section)
    return digests


def _digest(expr: list[Any]) -> str:
    return blake2b(json.dumps(expr).encode(), digest_size=8).hexdigest()
