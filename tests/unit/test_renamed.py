"""Names that configurations of sites still use: they are read for one version, with a warning."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

import pytest
from traitlets.config import Config

from portal.catalog.builds.settings import BuildSettings
from portal.catalog.versions.user_environments import UserEnvironments
from portal.paths import data_path


class Builds(BuildSettings):
    """The settings alone, without a scheduler's work."""


@pytest.mark.parametrize(
    ("kind", "former", "name"),
    [(Builds, "Workshop", "max_builds"), (UserEnvironments, "OwnEnvironments", "most")],
)
def test_a_former_section_is_read_with_a_warning_and_the_new_one_wins(
    kind: Any, former: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = {"catalog": None, "store": None, "build_scheduler": None} if name == "most" else {}

    def read(**sections: dict[str, int]) -> int:
        log = logging.getLogger("portal-test")
        value: int = getattr(kind(config=Config(sections), log=log, **made), name)
        return value

    assert read(**{former: {name: 7}}) == 7
    assert f"c.{former} is now called c.{kind.__name__}" in caplog.text
    assert read(**{former: {name: 7}, kind.__name__: {name: 8}}) == 8
    caplog.clear()
    assert read(**{kind.__name__: {name: 9}}) == 9
    assert not caplog.text


def test_the_former_name_of_paths_is_imported_with_a_warning() -> None:
    sys.modules.pop("portal.where", None)
    with pytest.warns(FutureWarning, match=r"portal\.paths"):
        former = importlib.import_module("portal.where")
    assert former.data_path is data_path
