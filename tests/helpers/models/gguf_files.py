"""Small GGUF files, written number by number from the format's specification."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["CONTROLS", "TEMPLATE", "gguf_bytes", "tiny_fields", "tiny_gguf", "tiny_tensors"]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "BF16": 30}
WIDTH, HEADS, KV_HEADS, INNER, LAYERS = 32, 4, 2, 64, 2


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def gguf_bytes(
    fields: Mapping[str, Any], tensors: Mapping[str, tuple[Sequence[int], str, bytes]], *, alignment: int = 32
) -> bytes:
    """A GGUF file of version 3; tensors are (shape, outermost first; format; packed bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(_text(key) + _value(value) for key, value in fields.items())
    body = b""
    for name, (shape, kind, packed) in tensors.items():
        body += b"\0" * (-len(body) % alignment)
        head += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += struct.pack("<IQ", KINDS[kind], len(body))
        body += packed
    return head + b"\0" * (-len(head) % alignment) + body


def byte_pieces() -> list[str]:
    """The 256 pieces of byte-level BPE, by their bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    shown = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [shown[byte] for byte in range(256)]


def tiny_fields(**changes: Any) -> dict[str, Any]:
    """Metadata of a tiny chat model; dots in the names of changes are written as two underscores."""
    pieces = [*CONTROLS, *byte_pieces(), "us", "er", "user", "Ġw", "12"]
    fields: dict[str, Any] = {
        "general.architecture": "llama",
        "llama.context_length": 128,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 100000.0,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": len(pieces),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": [3] * len(CONTROLS) + [1] * (len(pieces) - len(CONTROLS)),
        "tokenizer.ggml.merges": ["u s", "e r", "us er", "Ġ w", "1 2"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in (fields | changed).items() if value is not None}


def tiny_tensors(rng: np.random.Generator, kind: str = "F32") -> dict[str, tuple[Sequence[int], str, bytes]]:
    """Random tensors of the tiny model, matrices in one format."""
    vocabulary = len(CONTROLS) + 256 + 5
    key_width = WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd": (vocabulary, WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        of_layer = {
            "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (key_width, WIDTH),
            "attn_v": (key_width, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
        }  # fmt: skip
        shapes |= {f"blk.{layer}.{part}": shape for part, shape in of_layer.items()}
    return {
        f"{name}.weight": (shape, *_packed(rng, int(np.prod(shape)), kind if len(shape) > 1 else "F32"))
        for name, shape in shapes.items()
    }


def _packed(rng: np.random.Generator, count: int, kind: str) -> tuple[str, bytes]:
    if kind == "F32":
        return kind, rng.normal(size=count).astype("<f4").tobytes()
    if kind == "F16":
        return kind, rng.normal(size=count).astype("<f2").tobytes()
    if kind == "BF16":
        return kind, (rng.normal(size=count).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    blocks = []
    for _ in range(count // 32):
        scales = rng.normal(scale=0.1, size=2 if kind == "Q4_1" else 1).astype("<f2").tobytes()
        blocks.append(scales + rng.bytes(32 if kind == "Q8_0" else 16))
    return kind, b"".join(blocks)


def tiny_gguf(kind: str = "F32", *, seed: int = 0, **changes: Any) -> bytes:
    """A tiny chat model."""
    return gguf_bytes(tiny_fields(**changes), tiny_tensors(np.random.default_rng(seed), kind))
