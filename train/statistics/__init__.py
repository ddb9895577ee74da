"""Intervals, correlations, ranks and tests that evaluation, analyses and the benchmark share.

Plain NumPy, each checked against scipy in the tests. Commands that need no extra report these intervals and tests (``eval``,
``audit``, the analyses), so scipy would have to be a requirement of the package; its import takes four times as long as the whole
command line, it has no adjustment by Holm, and its bootstrap does not resample clusters.
"""

from creditflow.train.statistics.agreement import auroc, calibration_error, logistic_fit, pearson, ranks, spearman
from creditflow.train.statistics.clustered import (
    ClusteredMean,
    Components,
    clustered_mean,
    crossed_mean,
    crossed_strata_mean,
    stratified_mean,
)
from creditflow.train.statistics.contrasts import (
    ALPHA,
    POWER,
    Contrast,
    contrasts_of,
    detectable_difference,
    probability_of_improvement,
)
from creditflow.train.statistics.intervals import (
    N_RESAMPLES,
    Interval,
    cluster_bootstrap,
    normal_interval,
    percentile_interval,
    wilson_interval,
)
from creditflow.train.statistics.significance import holm, sign_flip_test, sign_test
from creditflow.train.statistics.student import t_quantile, t_tails

__all__ = [
    "ALPHA",
    "N_RESAMPLES",
    "POWER",
    "ClusteredMean",
    "Components",
    "Contrast",
    "Interval",
    "auroc",
    "calibration_error",
    "cluster_bootstrap",
    "clustered_mean",
    "contrasts_of",
    "crossed_mean",
    "crossed_strata_mean",
    "detectable_difference",
    "holm",
    "logistic_fit",
    "normal_interval",
    "pearson",
    "percentile_interval",
    "probability_of_improvement",
    "ranks",
    "sign_flip_test",
    "sign_test",
    "spearman",
    "stratified_mean",
    "t_quantile",
    "t_tails",
    "wilson_interval",
]
