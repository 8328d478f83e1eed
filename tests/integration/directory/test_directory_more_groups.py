"""Groups of the portal's own beside the directory's: courses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from directory_site import Make, add_group, log_in

from portal.demo.daemons.slapd import Slapd
from portal.errors import NotAllowed, NotFound


async def courses(name: str) -> tuple[str, ...]:
    await asyncio.sleep(0)
    return {"ada": ("course-dl101", "course-b")}.get(name, ())


def user(name: str) -> Any:
    return SimpleNamespace(name=name, _auth_refreshed=0)


async def test_they_are_added_at_login_and_refresh(slapd: Slapd, make: Make) -> None:
    hub = make(slapd, more_groups=courses, refresh_patience=10)
    ada = await log_in(hub, "ada")
    assert ada["groups"] == ["course-b", "course-dl101", "gpu-users"]
    assert ada["auth_state"]["groups"] == ["gpu-users"]  # what the directory said
    again = await hub.refresh_user(user("ada"))
    assert again["groups"] == ["course-b", "course-dl101", "gpu-users"]
    assert "course-b" not in (await log_in(hub, "barbara"))["groups"]


async def test_a_group_of_the_directory_with_such_a_name_stays(
    own_slapd: Slapd, make: Make
) -> None:
    add_group(own_slapd, "course-b", f"uid=barbara,{own_slapd.people_dn}")
    add_group(own_slapd, "course-old", f"uid=ada,{own_slapd.people_dn}")
    hub = make(own_slapd, more_groups=courses)
    assert (await log_in(hub, "ada"))["groups"] == [
        "course-b",
        "course-dl101",
        "course-old",
        "gpu-users",
    ]
    assert "course-b" in (await log_in(hub, "barbara"))["groups"]


async def test_a_course_lets_nobody_in_whom_the_directory_does_not(
    slapd: Slapd, make: Make
) -> None:
    """An instructor names a course as they like; that is nobody's way past allowed_groups."""
    hub = make(
        slapd,
        more_groups=courses,
        allow_all=False,
        allowed_groups={"course-b"},
        admin_groups={"course-b"},
        refresh_patience=10,
    )
    model = await hub.authenticate(None, {"username": "ada", "password": "portal-demo"})
    assert model is not None and "course-b" in model["groups"]
    assert model["admin"] is False
    assert not hub._allowed("ada", model)
    assert await hub.refresh_user(user("ada")) is False


async def test_the_model_of_somebody_who_has_not_come(slapd: Slapd, make: Make) -> None:
    hub = make(slapd, more_groups=courses)
    assert (await hub.model_of("ada"))["groups"] == ["course-b", "course-dl101", "gpu-users"]
    for nobody in ("nobody-here", "*", "", "ada)(uid=*"):
        with pytest.raises(NotFound, match="has no user"):
            await hub.model_of(nobody)
    hub = make(slapd, more_groups=courses, allow_all=False, allowed_groups={"portal-admins"})
    with pytest.raises(NotAllowed, match="not allowed"):
        await hub.model_of("ada")
    hub = make(slapd, blocked_users={"ada"})
    with pytest.raises(NotAllowed):
        await hub.model_of("ada")
