"""Shell completion: a script for bash and zsh, made from the commands' own parsers, so that no option can be missing.

eval "$(creditflow --completion bash)"      in ~/.bashrc
eval "$(creditflow --completion zsh)"       in ~/.zshrc, after compinit

It completes commands, their actions, options, choices and names; everything else is a file.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from creditflow.envs.plugins.registry import Kind
from creditflow.train.arguments.plugins import code_arguments

__all__ = ["SHELLS", "completion_script"]

SHELLS: Final = ("bash", "zsh")

_SCRIPT: Final = """\
_creditflow() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} place="" i words=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${place:+$place }${COMP_WORDS[i]}" in
@places@) place="${place:+$place }${COMP_WORDS[i]}" ;;
        esac
    done
    case "$place $before" in
@values@
        *) case "$place" in
@words@
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _creditflow creditflow
"""


def completion_script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script of a shell.

    Args:
        shell: one of ``SHELLS``.
        parsers: the parsers of all commands.
    """
    words: dict[str, list[str]] = {"": [*parsers, "--help", "--version", "--traceback", "--completion"]}
    values: dict[str, list[str]] = {" --completion": list(SHELLS)}
    for name, parser in parsers.items():
        for command, command_parser in _with_actions(name, parser):
            words[command], values_here = _words(command_parser)
            values |= {f"{command} {option}": choices for option, choices in values_here.items()}
    places = "|".join(shlex.quote(command) for command in words if command)
    script = _SCRIPT.replace("@places@", f"            {places}")
    script = script.replace("@values@", _cases(values, 8)).replace("@words@", _cases(words, 12))
    return script if shell == "bash" else f"autoload -U bashcompinit && bashcompinit\n{script}"


def _cases(words: Mapping[str, Sequence[str]], indent: int) -> str:
    return "\n".join(
        f"{'':{indent}}{shlex.quote(at)}) words={shlex.quote(' '.join(completions))} ;;"
        for at, completions in words.items()
    )


def _with_actions(place: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield place, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from _with_actions(f"{place} {word}", below)


def _words(parser: argparse.ArgumentParser) -> tuple[list[str], dict[str, list[str]]]:
    """The words that may follow a command, and by option those that may be its value."""
    names = _names()
    kinds = {argument.name: argument.kind for argument in code_arguments(parser)}
    words: list[str] = []
    values: dict[str, list[str]] = {}
    for action in parser._actions:
        registered = names[kinds[action.dest]] if action.dest in kinds else []
        choices = list(map(str, action.choices)) if action.choices is not None else registered
        if not action.option_strings:
            words += choices
        for option in action.option_strings:
            words.append(option)
            if choices and action.nargs != 0:
                values[option] = choices
    return words, values


def _names() -> dict[Kind, list[str]]:
    """Names that are no choices, as code and arguments may follow them, by kind."""
    from creditflow.envs.registration import ENVIRONMENTS
    from creditflow.train.rollout.plugins import registries

    return {kind: list(registry.shipped()) for kind, registry in registries().items()} | {
        "environment": list(ENVIRONMENTS)
    }
