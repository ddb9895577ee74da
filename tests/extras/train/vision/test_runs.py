"""A whole run of a vision-language policy: resumed bit by bit, exported for plain transformers, refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.toy_config import toy_vision_config

import creditflow
from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.transformers_backend import Cohort, TransformersBackend
from creditflow.agents.base import View
from creditflow.agents.language_model.pretrained import PromptingConfig, make_hf_agent, open_pretrained
from creditflow.agents.models.vision import picture_tensors
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.bench.language_model.tables import prompt_table
from creditflow.train.run.assemble import make_policy_agent


def first_view(config: dict[str, Any]) -> View:
    env: Any = creditflow.make("sokoban", **config["env"]["options"]).unwrapped
    observation, info = env.reset(seed=0)
    return View(observation, info, (), env, np.random.default_rng(0))


def test_the_export_answers_the_same_with_plain_transformers(
    tmp_path: Path, architecture: str, trainer_of: Callable[..., Any]
) -> None:
    from transformers import AutoModelForImageTextToText, AutoTokenizer, Qwen2VLImageProcessorPil

    config = toy_vision_config(tmp_path, architecture)
    run = trainer_of(config)
    run.run()
    folder = tmp_path / "run" / "model"
    view = first_view(config)
    agent = make_policy_agent(run.settings, run.backend, run.tokenizer, temperature=0.0)
    [ours] = agent.act([view])
    assert ours.tokens is not None
    plain = AutoModelForImageTextToText.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "<|vision_start|><|image_pad|><|vision_end|>"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    read = Qwen2VLImageProcessorPil.from_pretrained(folder)(images=[view.observation], return_tensors="pt")
    count = int(read["image_grid_thw"].prod()) // plain.config.vision_config.spatial_merge_size**2
    ids = tokenizer.encode(text.replace("<|image_pad|>", "<|image_pad|>" * count), add_special_tokens=False)
    assert ids == ours.tokens.prompt.tolist()
    batch = torch.tensor([ids])
    types = (batch == plain.config.image_token_id).int()
    with torch.no_grad():
        answer = plain.generate(
            input_ids=batch, mm_token_type_ids=types, attention_mask=torch.ones_like(batch), **read,
            max_new_tokens=len(ours.tokens.completion), do_sample=False, suppress_tokens=[plain.config.image_token_id],
        )  # fmt: skip
        logits = plain(input_ids=batch, mm_token_type_ids=types, **read).logits
        trained = run.model.eval()(
            input_ids=batch, mm_token_type_ids=types, **picture_tensors(ours.tokens.pictures, "cpu")
        ).logits
    assert answer[0, len(ids) :].tolist() == ours.tokens.completion.tolist()
    np.testing.assert_allclose(logits.numpy(), trained.numpy(), atol=1e-5)
    [again] = make_hf_agent(str(folder), sampling=Sampling(max_new_tokens=3, temperature=0.0)).act([first_view(config)])
    assert again.response == ours.response


def test_exact_evaluation_refuses_prompts_with_pictures(
    vision_config: dict[str, Any], policy_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(vision_config)
    agent = make_policy_agent(settings, TransformersBackend(model), tokenizer, temperature=1.0)
    env: Any = creditflow.make("sokoban", **settings.env.options).unwrapped
    with pytest.raises(ConfigError, match=r"shows pictures; evaluate by sampled episodes \(without --exact\)"):
        prompt_table(agent, env, env.tasks.get(env.tasks.task_ids()[0]))


def test_a_conversation_with_many_pictures_is_sampled_with_its_cache(
    vision_config: dict[str, Any],
    policy_of: Callable[..., Any],
    groups_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, model, tokenizer = policy_of(vision_config, "prompting.history=append")

    with_cache = groups_of(settings, model, tokenizer)
    monkeypatch.setattr(Cohort, "continued_by", lambda *_: None)
    without = groups_of(settings, model, tokenizer)
    for group, other in zip(with_cache, without, strict=True):
        for one, two in zip(group.trajectories, other.trajectories, strict=True):
            assert one.tokens.ids.tolist() == two.tokens.ids.tolist()
            np.testing.assert_allclose(one.tokens.logprobs, two.tokens.logprobs, atol=2e-5)


def test_a_critic_reads_pictures(vision_config: dict[str, Any], trainer_of: Callable[..., Any]) -> None:
    vision_config["env"]["options"]["reward"] = "gym_sokoban"  # a policy that was not trained never succeeds
    for kind in ("shared", "separate"):
        config = vision_config | {
            "out": f"{vision_config['out']}-{kind}", "credit": {"scheme": "mt_ppo"}, "critic": {"kind": kind, "lr": 1e-3},
            "update": vision_config["update"] | {"iterations": 2},
        }  # fmt: skip
        run = trainer_of(config)
        before = run.model.model.visual.patch_embed.proj.weight.detach().clone()
        run.run()
        assert run.critic.head.weight.abs().sum() > 0.0
        assert not torch.equal(before, run.model.model.visual.patch_embed.proj.weight)


def test_settings_that_do_not_go_with_pictures_are_refused(
    config: dict[str, Any], vision_config: dict[str, Any], policy_of: Callable[..., Any], trainer_of: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError, match="cannot be packed: use update"):
        trainer_of(vision_config, "update.packing=packed")
    with pytest.raises(ConfigError, match="Qwen2ForCausalLM has none"):
        trainer_of(config, "model.freeze_vision=true")
    with pytest.raises(ConfigError, match="without one; make it with pictures"):
        trainer_of(vision_config, "env.options.obs_mode=text").run()
    with pytest.raises(ConfigError, match="choose a prompt that shows pictures"):
        trainer_of(config, "env.options.obs_mode=rgb")


def test_a_model_without_vision_refuses_a_prompt_with_pictures(
    config: dict[str, Any], vision_config: dict[str, Any], policy_of: Callable[..., Any]
) -> None:
    _, model, tokenizer = policy_of(config)
    with pytest.raises(ConfigError, match="'glance-v1' shows pictures, which this model cannot read"):
        PromptingConfig(prompt="glance-v1").agent(TransformersBackend(model), tokenizer, Sampling())


def test_frames_beyond_the_limit_are_refused(vision_config: dict[str, Any], policy_of: Callable[..., Any]) -> None:
    settings, model, tokenizer = policy_of(vision_config)
    agent = make_policy_agent(settings, TransformersBackend(model), tokenizer, temperature=0.0)
    view = first_view(vision_config)
    large = View(np.zeros((4, 4097, 3), np.uint8), view.info, (), view.env, view.rng)
    with pytest.raises(DataError, match=r"4 x 4097 pixels is too large.*tile_size"):
        agent.act([large])


def test_a_vision_model_whose_folder_lacks_its_processor_is_an_error(
    tmp_path: Path, vision_config: dict[str, Any], policy_of: Callable[..., Any]
) -> None:
    _, model, tokenizer = policy_of(vision_config)
    model.save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    with pytest.raises(DataError, match="no readable image processor"):
        open_pretrained(str(tmp_path / "m"), device="cpu")


def test_a_run_with_the_settings_of_the_recipes_trains_the_tower(
    tmp_path: Path, architecture: str, trainer_of: Callable[..., Any]
) -> None:
    config = toy_vision_config(tmp_path, architecture)
    config["env"]["options"]["reward"] = "gym_sokoban"  # a policy that was not trained never succeeds
    config["rollout"] |= {"dtype": "bfloat16"}
    config["model"] |= {"autocast": "bfloat16", "gradient_checkpointing": True}
    config["update"] |= {
        "iterations": 1, "minibatch_size": 4, "minibatch_unit": "turn", "row_layout": "turn",
        "loss": {"kl_weight": 0.01, "kl_kind": "k3", "kl_in": "loss", "importance_cap": 2.0},
    }  # fmt: skip
    run = trainer_of(config)
    before = run.model.model.visual.patch_embed.proj.weight.detach().clone()
    run.run()
    assert not torch.equal(before, run.model.model.visual.patch_embed.proj.weight)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    [record] = [one for one in map(json.loads, lines) if one["kind"] == "iteration"]
    assert 0.0 < record["sampler_mismatch_max"] < 0.3
