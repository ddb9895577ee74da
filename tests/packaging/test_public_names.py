"""``__all__`` of every public package is sorted and names what exists."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    ["creditflow", "creditflow.envs", "creditflow.wrappers", "creditflow.wrappers.credit",
     "creditflow.wrappers.trajectory", "creditflow.agents"],
)  # fmt: skip
def test_all_is_sorted_and_every_name_exists(name):
    module = import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_the_top_level_surface():
    import creditflow

    assert set(creditflow.__all__) == {
        "CreditflowError", "__version__", "credit", "errors", "make", "make_vec"
    }  # fmt: skip
    with pytest.raises(AttributeError, match="nothing_such"):
        creditflow.nothing_such  # noqa: B018 - the access is the test
