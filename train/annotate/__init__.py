"""Annotators: models, LLM judges, oracles and Monte Carlo continuations write named values into trajectories.

Credit schemes only read them, which keeps schemes pure: whatever needs weights, a network or an environment happens here,
once, with its provenance in the log, and every scheme can then be tried on the same values.
"""

from creditflow.train.annotate.apply import annotate
from creditflow.train.annotate.base import AnnotationError, Annotations, Annotator, Provenance, boundaries
from creditflow.train.annotate.registry import ANNOTATORS, Context, make_annotator

__all__ = [
    "ANNOTATORS",
    "AnnotationError",
    "Annotations",
    "Annotator",
    "Context",
    "Provenance",
    "annotate",
    "boundaries",
    "make_annotator",
]
