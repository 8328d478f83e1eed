"""Who may use a model, with the real Hub's tokens and groups: nothing is launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
ASLEEP, OTHER = 503, 404  # let in, but there is no replica; not theirs
LIMITS = {"wake": 0}


@pytest.fixture
def ada(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "ada") as ada:
        for name in ("one", "two"):
            assert ada.put(f"models/{name}", json={"limits": LIMITS}).status_code == 200
        yield ada
        for name in ("one", "two"):
            ada.delete(f"models/{name}")


def asked(demo: Any, name: str, token: str) -> int:
    address = f"{demo.url}/services/portal/models/{name}/v1/models"
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(address, headers=headers, trust_env=False, timeout=60).status_code


def token(person: Caller, *scopes: str) -> tuple[str, str]:
    """Return a new token of the person with these scopes alone, and its id."""
    made = person.person.api(
        "POST", f"/users/{person.person.name}/tokens", {"scopes": list(scopes)}
    )
    assert made.status_code == 201, made.text
    return str(made.json()["token"]), str(made.json()["id"])


def test_a_token_for_one_model_is_for_that_one_alone(demo: Any, ada: Caller) -> None:
    use = "custom:portal:models:use"
    one, id_ = token(ada, f"{use}!service=one")
    every, _ = token(ada, use)
    none, _ = token(ada, "read:users:name!user=ada")
    wait_until("the gateway knows both", lambda: asked(demo, "two", every) == ASLEEP, 20)
    assert asked(demo, "one", every) == ASLEEP
    assert asked(demo, "one", one) == ASLEEP
    assert asked(demo, "two", one) == 403
    assert asked(demo, "one", none) == 403
    # It is for nothing else, either.
    headers = {"Authorization": f"token {one}"}
    for url in (
        f"{demo.url}/hub/api/users/ada/tokens",
        f"{demo.url}/services/portal/api/v1/models",
    ):
        answer = httpx.get(url, headers=headers, trust_env=False)
        assert answer.status_code in (401, 403, 404), url

    with Caller(demo.url, "barbara") as barbara:  # a token does not open others' models
        hers, _ = token(barbara, use)
        assert asked(demo, "one", hers) == OTHER

    assert ada.person.api("DELETE", f"/users/ada/tokens/{id_}").status_code == 204
    wait_until("the revoked token is refused", lambda: asked(demo, "one", one) == 401, 12)


def test_the_people_of_a_course_may_use_a_model(demo: Any, ada: Caller) -> None:
    with Caller(demo.url, "student01") as student, Caller(demo.url, "grace") as grace:
        mine, hers = student.person.token, grace.person.token
        courses = [item["name"] for item in student.get("courses").json()["items"]]
        assert courses, "the demo's course"
        assert asked(demo, "one", mine) == OTHER
        groups = {"groups": [f"course-{courses[0]}"]}
        assert ada.put("models/one", json=groups).status_code == 200
        wait_until("a student may use it", lambda: asked(demo, "one", mine) == ASLEEP, 20)
        assert asked(demo, "two", mine) == OTHER
        assert asked(demo, "one", hers) == OTHER
        listed = [item["name"] for item in student.get("models").json()["items"]]
        assert listed == ["one"]
