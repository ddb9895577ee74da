"""Prompts with pictures under verl's own worker: its sampler is sent them, and its trainer reads of them what ours does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.toy_config import toy_vision_config
from helpers.servers.verl_parts import Server, random_server

pytestmark = pytest.mark.verl
PROCESSORS = {"qwen2_5_vl": "Qwen2_5_VLProcessor", "qwen3_vl": "Qwen3VLProcessor"}


class Watching(Server):
    """A server that keeps the pictures it is sent."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(random_server(tokenizer)._answer)
        self.pictures: list[Any] = []

    async def generate(self, request_id: str, *, image_data: Any = None, **how: Any) -> Any:
        self.pictures.append(image_data)
        return await super().generate(request_id, **how)


@pytest.fixture(params=sorted(PROCESSORS))
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(architecture: str, tmp_path: Path) -> Path:
    """A vision-language model that was not trained."""
    from creditflow.train.rollout.tasks import training_tasks
    from creditflow.train.run.assemble import make_policy
    from creditflow.train.run.folder import save_policy
    from creditflow.train.settings.reading import read_dataclass
    from creditflow.train.settings.schema import TrainConfig

    settings = read_dataclass(TrainConfig, toy_vision_config(tmp_path, architecture))
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    save_policy(*make_policy(settings, None, tasks), settings, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def processor(architecture: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """verl opens the processor of the model's family; its part for videos needs torchvision, which has no build for CPUs on PyPI."""
    import transformers

    from creditflow.agents.language_model.pretrained import open_tokenizer

    family = getattr(transformers, PROCESSORS[architecture])
    monkeypatch.setattr(family, "check_argument_for_proper_class", lambda *_: None)
    pictures = transformers.Qwen2VLImageProcessorPil.from_pretrained(str(folder))

    def opened(*_: Any, **__: Any) -> Any:
        return family(image_processor=pictures, tokenizer=open_tokenizer(folder), video_processor=None)

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", opened)


@pytest.fixture
def shown(config_of: Callable[..., Any], options: dict[str, Any], folder: Path) -> Any:
    """verl's configuration of a loop whose prompts show pictures."""
    options |= {"obs_mode": "rgb", "tile_size": 8}
    return config_of(
        f"actor_rollout_ref.model.path={folder}", "actor_rollout_ref.rollout.prompt_length=200",
        "actor_rollout_ref.rollout.response_length=800", prompting={"prompt": "glance-v1", "dialect": "bare"},
    )  # fmt: skip


@pytest.mark.usefixtures("processor")
def test_verl_reads_the_pictures_patches_and_positions_that_our_trainer_reads(
    play: Callable[..., Any], shown: Any, folder: Path
) -> None:
    from creditflow.agents.language_model.pretrained import open_tokenizer
    from creditflow.agents.models.pictures import pictures_of
    from creditflow.agents.models.vision import rope_positions

    tokenizer = open_tokenizer(folder)
    encoder = pictures_of(tokenizer)
    assert encoder is not None
    server = Watching(tokenizer)
    batch = play(server, config=shown)
    sent = {str(prompt): images for (_, prompt, _), images in zip(server.asked, server.pictures, strict=True)}
    assert all(sampling["logit_bias"] == {encoder.token: -100.0} for _, _, sampling in server.asked)
    assert len(batch) == 8
    for i in range(len(batch)):
        real = batch.batch["attention_mask"][i].bool()
        ids = batch.batch["input_ids"][i][real].numpy().astype(np.int32)
        # the last prompt of the episode has all of its pictures
        last = max((prompt for prompt in sent if str(ids.tolist()).startswith(prompt[:-1])), key=len)
        pictures = [encoder.encode(np.asarray(image)) for image in sent[last]]
        read = batch.non_tensor_batch["multi_modal_inputs"][i]
        np.testing.assert_array_equal(read["pixel_values"], np.concatenate([one.patches for one in pictures]))
        assert [tuple(grid) for grid in read["image_grid_thw"].tolist()] == [one.grid for one in pictures]
        text, *grid = batch.batch["position_ids"][i][:, real].numpy()
        np.testing.assert_array_equal(text, np.arange(len(ids)))
        np.testing.assert_array_equal(np.stack(grid), rope_positions(ids, pictures))


def test_a_model_whose_processor_verl_cannot_open_is_refused(
    play: Callable[..., Any], shown: Any, folder: Path
) -> None:
    from hydra.errors import InstantiationException

    from creditflow.agents.language_model.pretrained import open_tokenizer

    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(InstantiationException, match="no processor of pictures"):
        play(Watching(open_tokenizer(folder)), config=shown)
