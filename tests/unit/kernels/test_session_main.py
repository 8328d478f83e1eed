"""What the session's program changes in JupyterLab before it starts."""

from __future__ import annotations

import pytest
from jupyterlab import commands
from portal_session import __main__ as program


def test_node_is_not_started_for_a_registry_that_no_session_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "_yarn_config", commands._yarn_config)
    monkeypatch.setattr(commands, "which", lambda name: pytest.fail(f"looks for {name}"))
    program._ask_no_yarn()
    assert commands.AppOptions().registry == commands.YARN_DEFAULT_REGISTRY
