"""Features of other packages: only what the site names, and each fault in words."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets.config import Config

from portal import plugins
from portal.doctor.checks import all_checks
from portal.errors import ConfigurationError
from portal.features import FEATURES, add_works
from portal.launch.kinds import KINDS, stored_kind
from portal.models.audit import ACTION_WORDS
from spawners import hub_setup

WORKS = """\
from portal.features import Feature
from portal.doctor.finding import check, ok
from portal.launch.kinds import Kind
from portal.models.audit import AuditedAction

class EditorAudit(AuditedAction):
    OPEN_EDITOR = "open-editor"
    @classmethod
    def special(cls):
        return {cls.OPEN_EDITOR: "Open the editor"}

class Editor(Kind):
    name = "editor"
    title = "an editor"

@check("editor", "An editor is installed")
async def installed(site):
    return ok("it is")

CHECKS = (installed,)

class Twin(Kind):
    name = "run"
    title = "another run"

FEATURE = Feature(
    "editor", kinds=(Editor,), actions=(EditorAudit,), checks="site_works:CHECKS"
)
TWIN = Feature("twin", kinds=(Twin,))
"""
ENTRY_POINTS = """\
[data_scientist_portal.works]
editor = site_works:FEATURE
twin = site_works:TWIN
"""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = tmp_path / "site_works-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-works\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "site_works.py").write_text(WORKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load.cache_clear()
    kinds, features = list(KINDS), list(FEATURES)
    yield
    KINDS[:], FEATURES[:] = kinds, features
    plugins.load.cache_clear()
    sys.modules.pop("site_works", None)


def test_what_no_setting_names_is_not_loaded() -> None:
    add_works(Config())
    assert "site_works" not in sys.modules


def test_a_named_work_is_added_once() -> None:
    for _ in range(2):
        add_works(Config(Works={"names": ["editor"]}))
    assert stored_kind("editor").title == "an editor"
    assert [feature.name for feature in FEATURES].count("editor") == 1
    assert [check.id for check in all_checks()].count("editor") == 1
    assert ACTION_WORDS.pop("open-editor") == "Open the editor"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("twin", "Two kinds of sessions have the name 'run'"),
        ("nobody", "No installed package has the data_scientist_portal.works 'nobody'"),
    ],
)
def test_a_fault_ends_the_hub_with_a_sentence(
    name: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(Works={"names": [name]})
    with pytest.raises(ConfigurationError, match=sentence):
        add_works(config)
    ends: list[int] = []
    hub: Any = SimpleNamespace(
        config=config, log=logging.getLogger("hub"), exit=ends.append, template_vars={}
    )
    hub_setup._configured(SimpleNamespace(owner=hub))
    assert ends == [1] and sentence in caplog.text
