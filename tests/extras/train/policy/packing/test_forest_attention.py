"""Attention over a forest against one dense masked product: results and gradients, without anything quadratic."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from helpers.models.largest_tensor import LargestTensor
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.policy.packing.forest import Forest
from creditflow.train.policy.packing.fused import KERNELS, Paths, available_kernels, fused_attention, fused_kernel
from creditflow.train.policy.packing.portable import Layout, attend, attend_backward, portable_attention

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=10)
CPU = torch.device("cpu")


def forest_of(lengths: list[int], seed: int) -> Forest:
    """Sequences of two ids, which share prefixes."""
    rng = np.random.default_rng(seed)
    return Forest.of([rng.integers(0, 2, n) if rng.random() < 0.7 else np.zeros(n, np.int64) for n in lengths])


def inputs_of(tokens: int, heads: int, kv_heads: int, dtype: Any, seed: int) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(seed)

    def random(count: int) -> Any:
        return (2 * torch.randn(tokens, count, 8, dtype=dtype, generator=generator)).requires_grad_()

    return random(heads), random(kv_heads), random(kv_heads)


def dense(forest: Forest, q: Any, k: Any, v: Any, scale: float) -> Any:
    """One softmax over all tokens, masked."""
    seen = torch.zeros(len(forest), len(forest), dtype=torch.bool)
    for segment in range(len(forest.starts)):
        path = forest.path(segment)
        for token in range(forest.starts[segment], forest.stops[segment]):
            seen[token, path[: forest.positions[token] + 1]] = True
    keys, values = (one.repeat_interleave(q.shape[1] // one.shape[1], 1).transpose(0, 1) for one in (k, v))
    scores = (q.transpose(0, 1) @ keys.transpose(1, 2) * scale).masked_fill(~seen, -torch.inf)
    return (scores.softmax(-1) @ values).transpose(0, 1)


@pytest.mark.parametrize("own_kernel", [True, False])
@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, kv_heads=st.sampled_from([1, 2, 4]), seed=st.integers(0, 10**6))
def test_results_and_gradients_are_those_of_a_dense_mask(
    own_kernel: bool, lengths: list[int], kv_heads: int, seed: int
) -> None:
    forest = forest_of(lengths, seed)
    inputs = inputs_of(len(forest), 4, kv_heads, torch.float64, seed)
    wanted = torch.randn(len(forest), 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
    out = portable_attention(*inputs, Layout.of(forest, CPU), 0.5, own_kernel)
    expected = dense(forest, *inputs, 0.5)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    found, reference = (torch.autograd.grad(one, inputs, wanted) for one in (out, expected))
    torch.testing.assert_close(found, reference, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("own_kernel", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_numbers_are_close(own_kernel: bool, dtype: Any) -> None:
    forest = forest_of([40] * 10, 1)
    inputs = inputs_of(len(forest), 4, 2, torch.float64, 1)
    q, k, v = narrow = [one.detach().to(dtype).requires_grad_() for one in inputs]
    out = portable_attention(q, k, v, Layout.of(forest, CPU), 0.5, own_kernel)
    expected = dense(forest, *inputs, 0.5)
    assert out.dtype == dtype
    limit = {torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=limit, atol=limit)
    gradients = torch.autograd.grad(out.float().sum(), narrow), torch.autograd.grad(expected.sum(), inputs)
    for found, reference in zip(*gradients, strict=True):
        assert found.dtype == dtype
        gap = (found.double() - reference).abs().max() / reference.abs().max()
        assert gap < limit


@pytest.mark.parametrize("own_kernel", [True, False])
def test_slots_of_padding_add_nothing_to_gradients_however_large_their_scores(own_kernel: bool) -> None:
    """They hold the first token, whose query here has a score of 400 above its own with the second key."""
    forest = Forest.of([np.array([0, 1, 2]), np.array([5, 6, 7, 8])])
    q, k, v = inputs = inputs_of(len(forest), 2, 2, torch.float32, 0)
    with torch.no_grad():
        q[0], k[0], k[1] = 10.0, -5.0, 5.0
    found = portable_attention(q, k, v, Layout.of(forest, CPU), 0.5, own_kernel)
    expected = dense(forest, q, k, v, 0.5)
    gradients = [torch.autograd.grad(one.square().sum(), inputs) for one in (found, expected)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-4)


def test_segments_of_similar_length_run_together_with_little_padding() -> None:
    forest = Forest.of([np.full(n, i) for i, n in enumerate([9, 100, 60, 10, 90])])
    assert [tile.shape for tile in Layout.of(forest, CPU).tiles] == [(2, 100), (1, 60), (2, 10)]


@pytest.mark.parametrize("own_kernel", [True, False])
def test_autocast_does_not_reach_into_the_attention(own_kernel: bool) -> None:
    """Scores in 16 bits would differ from those that the backward pass computes, which runs outside of autocast."""
    forest = forest_of([40] * 10, 1)
    q, k, v = inputs = [
        one.detach().bfloat16().requires_grad_() for one in inputs_of(len(forest), 4, 2, torch.float32, 1)
    ]
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = portable_attention(q, k, v, Layout.of(forest, CPU), 0.5, own_kernel)
        results.append((out.detach(), *torch.autograd.grad(out.float().square().sum(), inputs)))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_of_queries_equal_the_kernel_of_torch(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    monkeypatch.setattr("creditflow.train.policy.packing.portable.SCORES", 2 * 3 * 30 * 7)  # seven queries a block
    generator = torch.Generator().manual_seed(0)
    q, k, v, grad = (torch.randn(2, 3, 30, 8, dtype=torch.float64, generator=generator) for _ in range(4))
    results = []
    for own_kernel in (True, False):
        out, sums = attend(q, k, v, causal=causal, scale=0.3, own_kernel=own_kernel)
        found = attend_backward(grad, q, k, v, out, sums, causal=causal, scale=0.3, own_kernel=own_kernel)
        results.append((out, sums, *found))
    torch.testing.assert_close(results[0], results[1])


@given(lengths=LENGTHS, seed=st.integers(0, 10**6))
def test_the_paths_for_cuda_kernels_end_with_their_queries(lengths: list[int], seed: int) -> None:
    """A causal mask aligned at the last query and the last key then shows every query the path to itself."""
    forest = forest_of(lengths, seed)
    paths = Paths.of(forest, CPU)
    tokens = np.arange(len(forest)) if paths.index is None else paths.index.numpy()
    queries, keys = paths.queries.numpy(), paths.keys.numpy()
    assert queries[-1] == len(forest)
    assert keys[-1] == len(tokens)
    assert paths.longest_query == np.diff(queries).max()
    assert paths.longest_key == np.diff(keys).max()
    for segment in range(len(forest.starts)):
        path = tokens[keys[segment] : keys[segment + 1]]
        own = np.arange(queries[segment], queries[segment + 1])
        assert path.tolist() == forest.path(segment).tolist()
        assert path[len(path) - len(own) :].tolist() == own.tolist()
    assert (paths.index is None) == (forest.parents < 0).all()


def by_segment(q: Any, k: Any, v: Any, paths: Paths, scale: float) -> Any:
    """What the kernels of CUDA compute: sequences one by one, the causal mask aligned at their ends."""
    k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
    queries, keys = paths.queries.tolist(), paths.keys.tolist()
    parts = []
    for own, path in zip(pairwise(queries), pairwise(keys), strict=True):
        inputs = (q[slice(*own)], k[slice(*path)], v[slice(*path)])
        sizes = own[1] - own[0], path[1] - path[0]
        mask = torch.ones(sizes, dtype=torch.bool).tril(sizes[1] - sizes[0])
        batch = (one.transpose(0, 1)[None] for one in inputs)
        out = torch.nn.functional.scaled_dot_product_attention(*batch, attn_mask=mask, scale=scale)
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 10**6))
def test_gathered_paths_give_the_results_and_gradients_of_the_portable_attention(lengths: list[int], seed: int) -> None:
    forest = forest_of(lengths, seed)
    q, k, v = inputs = inputs_of(len(forest), 4, 2, torch.float64, seed)
    with patch.dict(KERNELS, {"by segment": by_segment}):
        found = fused_attention(q, k, v, Paths.of(forest, CPU), 0.5, "by segment")
    expected = portable_attention(q, k, v, Layout.of(forest, CPU), 0.5)
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(one.square().sum(), inputs) for one in (found, expected))
    torch.testing.assert_close(*gradients)


class Kernels:
    """Stand-ins with the signatures of the kernels that need CUDA; they check what those would reject."""

    def __init__(self) -> None:
        self.calls = 0

    def attend(self, q: Any, k: Any, v: Any, bounds: tuple[Any, Any, int, int], scale: float) -> Any:
        self.calls += 1
        queries, keys, longest_query, longest_key = bounds
        assert (queries.dtype, keys.dtype) == (torch.int32, torch.int32)
        assert (longest_query, longest_key) == (int(queries.diff().max()), int(keys.diff().max()))
        assert all(one.is_contiguous() for one in (q, k, v))
        return by_segment(q, k, v, Paths(queries, keys, longest_query, longest_key, None), scale)

    def torch_2_13(
        self, query: Any, key: Any, value: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int, max_k: int, *,
        return_aux: Any = None, scale: float = 0.0, window_size: Any = (-1, -1), enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        assert enable_gqa == (query.shape[1] != key.shape[1])
        assert return_aux is None
        assert window_size == (-1, 0)
        return self.attend(query, key, value, (cu_seq_q, cu_seq_k, max_q, max_k), scale)

    def torch_2_11(
        self, query: Any, key: Any, value: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int, max_k: int, *,
        return_aux: Any = None, scale: float = 0.0, window_size: Any = (-1, -1),
    ) -> Any:  # fmt: skip
        assert return_aux is None
        assert query.shape[1] == key.shape[1]
        assert window_size == (-1, 0)
        return self.attend(query, key, value, (cu_seq_q, cu_seq_k, max_q, max_k), scale)

    def flash_attn(
        self, q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
        dropout_p: float = 0.0, softmax_scale: float = 0.0, causal: bool = False,
    ) -> Any:  # fmt: skip
        assert causal
        assert not dropout_p
        return self.attend(q, k, v, (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k), softmax_scale)


@pytest.mark.parametrize("release", ["torch_2_13", "torch_2_11", "flash_attn"])
@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("shared", [True, False])
def test_every_release_of_a_kernel_is_called_as_it_asks(
    monkeypatch: pytest.MonkeyPatch, release: str, kv_heads: int, shared: bool
) -> None:
    kernels = Kernels()
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", getattr(kernels, release))
    package = ModuleType("flash_attn")
    monkeypatch.setattr(package, "flash_attn_varlen_func", kernels.flash_attn, raising=False)
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    prompt = np.zeros(20 * shared, np.int64)  # no segment is as long as a path
    forest = Forest.of([np.append(prompt, np.full(3 * n, n)) for n in range(1, 7)])
    inputs = inputs_of(len(forest), 4, kv_heads, torch.float64, 0)
    found = fused_attention(*inputs, Paths.of(forest, CPU), 0.4, release.partition("_2")[0])
    assert kernels.calls == 1
    expected = portable_attention(*inputs, Layout.of(forest, CPU), 0.4)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(one.square().sum(), inputs) for one in (found, expected)))


class Queries:
    """What the choice of a kernel asks of a tensor, which may be on a device that this machine lacks."""

    def __init__(self, device: str, dtype: Any, size: int = 64) -> None:
        self.device, self.dtype, self.shape = torch.device(device), dtype, (5, 4, size)


@pytest.mark.parametrize(
    ("module", "preferred"),
    [
        (SimpleNamespace(flash_attn_varlen_func=print), "flash_attn"),
        (SimpleNamespace(cute=None), "torch"),  # a namespace, as flash-attn-4 alone installs it
        (None, "torch"),  # not installed
    ],
)
def test_kernels_are_for_16_bits_on_cuda_from_ampere_on(
    monkeypatch: pytest.MonkeyPatch, module: SimpleNamespace | None, preferred: str
) -> None:
    capabilities = [(9, 0), (8, 0), (7, 5)]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device.index])
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    available_kernels.cache_clear()
    try:
        for dtype in (torch.float16, torch.bfloat16):
            kernels = [fused_kernel(Queries(f"cuda:{i}", dtype)) for i in range(3)]
            assert kernels == [preferred, preferred, ""]
            assert fused_kernel(Queries("cuda:0", dtype, 256)) == preferred
            assert not fused_kernel(Queries("cuda:0", dtype, 264))
            assert not fused_kernel(Queries("cuda:0", dtype, 20))  # no multiple of 8
            assert not fused_kernel(Queries("cpu", dtype))
        assert not fused_kernel(Queries("cuda:0", torch.float32))
        assert available_kernels(CPU) == ()
    finally:
        available_kernels.cache_clear()


def test_torchs_own_kernel_takes_the_arguments_and_has_a_gradient() -> None:
    """On tensors without numbers: the kernel itself needs CUDA."""
    forest = forest_of([30] * 6, 0)
    q, k, v = (
        one.detach().to("meta", torch.bfloat16).requires_grad_()
        for one in inputs_of(len(forest), 4, 2, torch.float32, 0)
    )
    out = fused_attention(q, k, v, Paths.of(forest, "meta"), 0.5, "torch")
    out.sum().backward()
    assert out.shape == q.shape
    assert [one.grad.shape for one in (q, k, v)] == [one.shape for one in (q, k, v)]


@pytest.mark.parametrize("own_kernel", [True, False])
def test_nothing_has_as_many_numbers_as_pairs_of_tokens(own_kernel: bool) -> None:
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 1000, 1500)
    forest = Forest.of([np.concatenate([prompt, rng.integers(0, 1000, 500)]) for _ in range(12)])
    inputs = inputs_of(len(forest), 2, 1, torch.float32, 0)
    with LargestTensor() as largest:
        portable_attention(*inputs, Layout.of(forest, CPU), 0.5, own_kernel).sum().backward()
    assert largest.numbers <= max(2**24, 3 * len(forest) * 2 * 8)
    assert own_kernel is False or largest.numbers < 3 * len(forest) * 2 * 8
