"""The protocol for pretrained models: equal settings for every scheme, and the contrast that was named beforehand."""

from dataclasses import asdict

import pytest
from gpu.pretrained import PRIMARY, RATES, SCHEMES, contrasts, pretrained, settings_of

from creditflow.envs.errors import ConfigError


def flat(settings, prefix=""):
    return {
        f"{prefix}{name}.{inner}" if isinstance(value, dict) else name: deep
        for name, value in settings.items()
        for inner, deep in (value.items() if isinstance(value, dict) else [("", value)])
    }


def test_schemes_differ_in_the_scheme_alone(tmp_path):
    first, second = (flat(asdict(settings_of(tmp_path, "m", name, RATES[0], 3))) for name in ("grpo", "grouptd"))
    assert {name for name in first if first[name] != second[name]} == {"out", "credit.scheme"}


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match="expected a folder with a pretrained model"):
        pretrained(tmp_path, str(tmp_path / "none"), [0])


def test_every_scheme_has_the_rate_that_is_better_on_other_tasks():
    valid = {"grpo": {1e-6: 0.2, 3e-6: 0.3}, "grouptd": {1e-6: 0.5, 3e-6: 0.4}, "graphgpo": {1e-6: 0.4, 3e-6: 0.1}}
    success = {
        "grpo": {1e-6: [0.9, 0.9], 3e-6: [0.3, 0.3]},
        "grouptd": {1e-6: [0.5, 0.7], 3e-6: [0.0, 0.0]},
        "graphgpo": {1e-6: [0.4, 0.5], 3e-6: [0.0, 0.0]},
    }
    result = contrasts(success, valid)
    assert result["rates"] == {"grpo": 3e-6, "grouptd": 1e-6, "graphgpo": 1e-6}
    assert result["primary"]["grouptd − graphgpo"][0] == pytest.approx(0.15)  # of .1 and .2
    assert result["secondary"]["grouptd − grpo"][0] == pytest.approx(0.3)
    assert set(PRIMARY) <= set(SCHEMES)
