"""What a replica's job accepts as its endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from portal_session.serving.definition import BadDefinition, Definition

PEM = "-----BEGIN CERTIFICATE-----\n"


def environ(**endpoint: Any) -> dict[str, str]:
    told = {"argv": ["serve", "--uds", "{socket}"], **endpoint}
    return {"PORTAL_ENDPOINT": json.dumps(told), "PORTAL_ENDPOINT_GATEWAY": PEM}


def test_a_definition() -> None:
    told = environ(health="/ready", load=20, drain=5)
    definition = Definition.from_environ({**told, "PORTAL_KERNEL_PORTS": "40000-40999"})
    assert definition[1:5] == ("~", "/ready", 20, 5) and definition.ports == "40000-40999"
    own = Definition.from_environ({**told, "PORTAL_ENDPOINT_PORTS": "1-2"})
    assert own.ports == "1-2"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "does not define an endpoint"),
        ({"PORTAL_ENDPOINT": "[]"}, "does not define an endpoint"),
        (environ(argv=[]), "must listen on"),
        (environ(argv=["serve", "8000"]), "must listen on"),
        (environ(argv=["serve", "{port}"]), "other users of the node"),
        (environ(health="health"), "must begin with '/'"),
        (environ(health="/a b"), "must begin with '/'"),
        (environ(load="soon"), "does not define an endpoint"),
        ({**environ(), "PORTAL_ENDPOINT_GATEWAY": ""}, "no certificate"),
    ],
)
def test_what_cannot_be_served_is_said(told: dict[str, str], words: str) -> None:
    with pytest.raises(BadDefinition, match=words):
        Definition.from_environ(told)


def test_a_port_with_a_secret_is_good() -> None:
    assert Definition.from_environ(environ(argv=["serve", "{port}", "{secret}"])).argv
