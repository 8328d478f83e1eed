"""Modules that a neighbour puts beside a source, in a folder that both may write: Python imports
some of them by itself, before the first line of a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_site import RunSite, played_service

PLANTED = "import pathlib\npathlib.Path({path!r}).touch()\n"


@pytest.mark.parametrize("module", ["sitecustomize", "usercustomize"])
@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_what_python_imports_by_itself_is_not_run(tmp_path: Path, module: str, kind: str) -> None:
    """As `python3 train.py` in a terminal: the folder is searched once Python has started."""
    with played_service() as service:
        site = RunSite(tmp_path, service)
        ran = tmp_path / "ran"
        site.script(PLANTED.format(path=str(ran)), f"{module}.py")
        site.script("NAMED = 'helper'\n", "helper.py")
        text = "import helper\nopen('done', 'w').write(helper.NAMED)"
        source = site.script(text) if kind == "script" else site.notebook(text)
        try:
            assert site.execute(site.plan(source))[0] == 0
        finally:
            site.end()
        assert (site.work / "done").read_text() == "helper"
        assert not ran.exists()
