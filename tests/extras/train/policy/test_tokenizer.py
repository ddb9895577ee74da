"""A tokenizer trained from scratch keeps its splitting rules when its folder is opened again."""

from __future__ import annotations

from pathlib import Path

from creditflow.agents.language_model.pretrained import open_tokenizer
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

BOARDS = ["Ob2 Pa3 Xb3 #c4", "Oa1 Pb2 Xc3 #d4"] * 50


def test_ids_are_the_same_after_saving_beside_a_model_whose_family_has_other_rules(tmp_path: Path) -> None:
    config = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=320, pattern=" ?[^a-z ][a-z][0-9]|."
    )
    tokenizer = build_tokenizer(BOARDS, config)
    build_model(config, tokenizer, seed=0).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = open_tokenizer(tmp_path)
    assert len(tokenizer.encode(BOARDS[0])) == 4
    assert again.encode(BOARDS[0]) == tokenizer.encode(BOARDS[0])
    assert again.chat_template == tokenizer.chat_template
    assert (again.pad_token_id, again.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)


def test_any_text_is_decoded_unchanged() -> None:
    config = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=300)
    tokenizer = build_tokenizer(BOARDS, config)
    for text in ("", "#_OX√PS\n", "<think>é 漢字</think>", "\x00\t"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
