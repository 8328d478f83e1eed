"""The doctor's checks of endpoints, with a gateway that runs and one that does not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from gateway_site import GatewaySite

from portal.doctor.checks.endpoints import gateway, models
from portal.doctor.finding import Level
from portal.doctor.site import Site
from portal.work.endpoint.parts import STATE


async def test_a_gateway_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Site("/nowhere/jupyterhub_config.py")
    monkeypatch.delenv(STATE, raising=False)
    assert (await gateway.run(nowhere, 20)).level is Level.SKIPPED
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(Path(folder))
        monkeypatch.setenv(STATE, str(site.directory))
        await site.start()
        try:
            found = await gateway.run(nowhere, 20)
            assert (found.level, found.found) == (Level.OK, "it answers, with 0 models")
        finally:
            await site.stop()
        found = await gateway.run(nowhere, 20)
        assert found.level is Level.FAILURE and "does not answer" in found.found


async def test_a_models_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    environments, folder = tmp_path / "environments", tmp_path / "models"
    environments.mkdir()
    folder.mkdir()
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(f"c.EnvironmentCatalog.directory = {str(environments)!r}\n")
    assert (await models.run(Site(str(config)), 20)).level is Level.OK
    (folder / "wrong.yaml").write_text("name: wrong\ntitle: Wrong\ncommand: 3\n")
    found = await models.run(Site(str(config)), 20)
    assert found.level is Level.WARNING and "wrong.yaml:3" in found.found, found
