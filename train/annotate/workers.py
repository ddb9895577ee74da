"""Annotators that are described by plain data, so that other processes can make them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from creditflow.envs.registration import maker
from creditflow.train.annotate.apply import annotate
from creditflow.train.annotate.base import Annotator
from creditflow.train.annotate.registry import Context, make_annotator
from creditflow.train.rollout.plugins import Carried, carried, load_carried
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

__all__ = ["AnnotatorSpec", "AnnotatorWorker"]


@dataclass(frozen=True)
class AnnotatorSpec:
    """Everything that determines annotations, as plain data.

    Attributes:
        name: the annotator with its argument, such as "forks:8".
        settings: its parameters.
        env, options: name and arguments of the environment; "" for none.
        device: device of models.
        recorded: identity of the run that played the log.
        plugins: what a worker loads before it begins.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    env: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    device: str = "auto"
    recorded: dict[str, Any] = field(default_factory=dict)
    plugins: Carried = field(default_factory=carried)

    def annotator(self) -> Annotator:
        """Make the annotator."""
        make_env = maker(self.env, self.options) if self.env else None
        relevant = {name: value for name, value in self.options.items() if name != "panel"}
        return make_annotator(self.name, Context(self.settings, make_env, self.device, relevant, self.recorded))

    def to_text(self) -> str:
        """Serialise to one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def open_worker(text: str) -> AnnotatorWorker:
        """The worker of a spec that ``to_text`` wrote."""
        data = json.loads(text)
        plugins = tuple((kind, spec, digest) for kind, spec, digest in data["plugins"])
        return AnnotatorWorker(AnnotatorSpec(**{**data, "plugins": plugins}))


class AnnotatorWorker:
    """Annotates parts of a log one after the other, with the same annotator."""

    def __init__(self, spec: AnnotatorSpec) -> None:
        load_carried(spec.plugins)
        self._annotator = spec.annotator()

    def play(self, lines: str) -> str:
        """Annotate the lines of a log; returns the lines of the annotated one."""
        stream = io.StringIO()
        write_jsonl(stream, annotate(read_groups(io.StringIO(lines)), self._annotator))
        return stream.getvalue()
