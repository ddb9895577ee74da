"""Annotators that are described by plain data, so that other processes can make them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from creditflow.envs.registration import maker
from creditflow.train.annotate.apply import annotate
from creditflow.train.annotate.base import Annotator
from creditflow.train.annotate.registry import Context, make_annotator
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

__all__ = ["AnnotatorSpec", "annotated_text"]


@dataclass(frozen=True)
class AnnotatorSpec:
    """Everything that determines annotations, as plain data.

    Attributes:
        name: the annotator with its argument, such as "forks:8".
        settings: its parameters.
        env, options: name and arguments of the environment; "" for none.
        device: device of models.
        recorded: identity of the run that played the log.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    env: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    device: str = "auto"
    recorded: dict[str, Any] = field(default_factory=dict)

    def annotator(self) -> Annotator:
        """Make the annotator."""
        make_env = maker(self.env, self.options) if self.env else None
        relevant = {name: value for name, value in self.options.items() if name != "panel"}
        return make_annotator(self.name, Context(self.settings, make_env, self.device, relevant, self.recorded))

    def to_text(self) -> str:
        """Serialise to one line of JSON."""
        return json.dumps(asdict(self))


def annotated_text(spec: str, lines: str) -> str:
    """In a worker: annotate the lines of a log; returns the lines of the annotated one.

    Args:
        spec: what ``AnnotatorSpec.to_text`` wrote.
        lines: the lines.
    """
    stream = io.StringIO()
    write_jsonl(stream, annotate(read_groups(io.StringIO(lines)), _annotator(spec)))
    return stream.getvalue()


@lru_cache(maxsize=1)
def _annotator(spec: str) -> Annotator:
    return AnnotatorSpec(**json.loads(spec)).annotator()
