"""``portal-serve`` and projects: for which one a new endpoint is, and with which it is shared."""

from __future__ import annotations

from typing import Any

import pytest
from portal_session.serving.portal_serve import ServeError, command

IN_PROJECT = {"PORTAL_KERNEL_BROKER": "there", "PORTAL_PROJECT": "proteins"}
OUTSIDE = {"PORTAL_KERNEL_BROKER": "there"}


class PlayedBroker:
    """Broker of a session whose user has the endpoint 'old'."""

    def __init__(self, address: str) -> None:
        self.sent = SENT

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        if method == "GET":
            return {"items": [{"name": "old"}]} if path == "/models" else {}
        self.sent.append((method, path, body))
        return {"address": "/services/portal/models/x/", "versions": []}


SENT: list[tuple[str, str, Any]] = []


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    SENT.clear()
    monkeypatch.setattr(command, "Broker", PlayedBroker)
    monkeypatch.setattr(command.resources, "offered_fields", lambda broker: ())


@pytest.mark.parametrize(
    ("environ", "words", "wanted"),
    [
        (IN_PROJECT, ["new"], {"project": "proteins"}),
        (IN_PROJECT, ["new", "--project", ""], {"project": ""}),
        (IN_PROJECT, ["new", "--project", "other"], {"project": "other"}),
        (OUTSIDE, ["new"], {}),
        (OUTSIDE, ["new", "--project", "other"], {"project": "other"}),
        (IN_PROJECT, ["old"], {}),  # it keeps its own
        (OUTSIDE, ["new", "--share-with", "a", "--share-with", "b"], {"projects": ["a", "b"]}),
        (OUTSIDE, ["old", "--private"],
         {"users": [], "groups": [], "projects": [], "everyone": False}),
    ],
)  # fmt: skip
def test_a_new_endpoint_is_the_projects_of_the_session(
    environ: dict[str, str], words: list[str], wanted: dict[str, Any]
) -> None:
    serve = [*words, "--model", "minilm", "--no-wait"]
    command.run(serve, environ, lambda text: None)
    assert SENT[0] == ("PUT", f"/models/{words[0]}", wanted)


def test_private_and_shared_exclude_each_other() -> None:
    with pytest.raises(ServeError, match=r"'--private' and .*'--share-with'.* exclude each other"):
        command.run(["old", "--private", "--share-with", "a"], OUTSIDE, lambda text: None)
