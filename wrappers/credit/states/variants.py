"""The named settings of GroupTD that the benchmark compares: single options, and the three main variants.

All but "grouptd" set every option in which they differ from each other, so that they do not depend on the scheme's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["VARIANTS"]

BASE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "prior": "distance",
        "prior_weight": 3.0,
        "discount": 0.9,
        "td_lambda": 0.3,
        "divide_by_success": False,
        "progress_weight": 0.0,
        "merge_test": 0.0,
    }
)
RELATIVE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **BASE,
        "td_lambda": 0.6,
        "divide_by_success": True,
        "progress_weight": 2.0,
        "progress_count": 8.0,
        "merge_test": 4.0,
    }
)

VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "grouptd": {},
        "grouptd_base": BASE,
        "grouptd_0": {**BASE, "td_lambda": 0.0},
        "grouptd_6": {**BASE, "td_lambda": 0.6},
        "grouptd_8": {**BASE, "td_lambda": 0.8},
        "grouptd_det": {**BASE, "deterministic": True},
        "grouptd_outcome": {**BASE, "add_outcome": True},
        "grouptd_divided": {**BASE, "divide_by_success": True},
        "grouptd_relative": RELATIVE,
        "grouptd_relative_8": {**RELATIVE, "td_lambda": 0.8},
        "grouptd_relative_det": {**RELATIVE, "deterministic": True},
        "grouptd_relative_no_test": {**RELATIVE, "merge_test": 0.0},
        "grouptd_relative_pooled": {**RELATIVE, "prior": "pooled", "pooled_weight": 30.0},
        "grouptd_relative_share": {**RELATIVE, "prior": "share", "prior_weight": 1.0, "td_lambda": 0.3},
        "evaluation": {**BASE, "prior": "none", "td_lambda": 0.0},
        "evaluation_share": {**BASE, "prior": "share", "prior_weight": 1.0, "td_lambda": 0.0},
        "evaluation_stationary": {**BASE, "form": "stationary", "prior": "none", "td_lambda": 0.0},
        "leave_one_out": {**BASE, "leave_one_out": True, "prior": "none", "td_lambda": 1.0},
    }
)
