"""Annotators: models, LLM judges, oracles and Monte Carlo continuations write named values into trajectories.

Credit schemes only read the values, which keeps schemes pure: computation that needs weights, a network or an environment
is done here once, its provenance is written to the log, and every scheme can be applied to the same values.
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
