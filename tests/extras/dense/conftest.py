"""The dense tier: one small random encoder that everything here shares. Needs torch and transformers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HAVE_DENSE = all(find_spec(name) is not None for name in ("torch", "transformers"))
collect_ignore_glob = [] if HAVE_DENSE else ["test_*.py"]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 16 dimensions with random weights."""
    from helpers.models.encoders import save_encoder

    return save_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
