"""Names of GPU types for people, from whatever form the setting has in the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets.config import Config

from portal.gpus.titles import gpu_titles


def described(**types: Any) -> Any:
    config = Config()
    config.LaunchForm.gpu_types.update(types)  # before the setting has a value: it is lazy
    return config.LaunchForm.get("gpu_types")


@pytest.mark.parametrize(
    ("setting", "titles"),
    [
        ({"v100": {"title": "V100", "memory": "32 GB"}, "t4": {}}, {"v100": "V100"}),
        (described(v100={"title": "V100"}), {"v100": "V100"}),
        ({"v100": "V100", "t4": {"title": ""}}, {}),
        (None, {}),
        ("v100", {}),
    ],
)
def test_titles(setting: Any, titles: dict[str, str]) -> None:
    assert gpu_titles(setting) == titles
