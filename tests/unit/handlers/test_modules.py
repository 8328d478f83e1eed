"""Environments that have some modules, for a session whose own lacks them."""

from __future__ import annotations

from typing import Any

import pytest
from session_endpoints import served
from test_job_kernels import CPUS, RLANG, TOKENS, TORCH, Site, site, teach  # noqa: F401  a fixture

from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment
from portal.work.kernel import modules

PACKAGES = {
    TORCH.fingerprint: ["torch==2.5", "Scikit_Learn==1.5", "ruamel.yaml==0.18"],
    CPUS.fingerprint: ["torch==2.5", "opencv-python-headless==4", "PyYAML @ file:///x"],
    RLANG.fingerprint: [],
}


@pytest.fixture
def known(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:  # noqa: F811
    async def verdicts_of(fingerprint: str) -> dict[str, Verdict]:
        facts: dict[str, Any] = {"packages": PACKAGES[fingerprint]}
        values = {"passed": True, "message": "", "at": 1.0, "facts": facts}
        return {"": Verdict(fingerprint=fingerprint, gpu_type="", **values)}

    monkeypatch.setattr(site.parts.store.tests, "verdicts_of", verdicts_of)
    return site


async def ask(site: Site, names: str, token: str = "session") -> Any:  # noqa: F811
    async with served(modules.ENDPOINTS, site.parts, TOKENS.get) as client:
        headers = {"Authorization": f"token {token}"}
        return await client.get("session/modules", params={"names": names}, headers=headers)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("torch", [TORCH, CPUS]),
        ("torch,sklearn", [TORCH]),
        ("cv2", [CPUS]),
        ("yaml", [CPUS]),
        ("unknown", []),
        ("torch,unknown", []),
    ],
)
async def test_those_that_have_all(known: Site, names: str, found: list[Environment]) -> None:
    answer = await ask(known, names)
    assert answer.json() == {
        "items": [{"environment": one.name, "title": one.title} for one in found]
    }


async def test_only_what_the_asker_may_use(known: Site) -> None:
    answer = await ask(known, "torch", "barbaras-session")
    assert [item["environment"] for item in answer.json()["items"]] == ["torch", "cpus"]
    known.parts.catalog.visible_to = lambda _: [CPUS]  # type: ignore[method-assign]
    answer = await ask(known, "torch", "barbaras-session")
    assert [item["environment"] for item in answer.json()["items"]] == ["cpus"]


async def test_a_spaces_environment_is_set(known: Site) -> None:
    await teach(known)
    assert (await ask(known, "torch", "course")).json() == {"items": []}


@pytest.mark.parametrize("names", ["", "a b", "../x", "a," * 50 + "a", "x" * 101])
async def test_what_is_no_module_is_refused(known: Site, names: str) -> None:
    assert (await ask(known, names)).status_code == 400


async def test_no_other_token(known: Site) -> None:
    assert (await ask(known, "torch", "ada")).status_code == 403
