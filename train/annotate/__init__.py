"""Annotators: models, judges, oracles and trials write named numbers into trajectories; credit schemes only read them.

The boundary keeps schemes pure: whatever needs weights, a network or an environment happens here, once, with its
provenance in the log, and every scheme can then be tried on the same numbers.
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
