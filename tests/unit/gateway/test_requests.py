"""Addresses and headers that the gateway lets through, and those that it refuses."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from portal.gateway.errors import Refused
from portal.gateway.requests import PREFIX, returned, sent, target, token


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("echo/v1/x", ("echo", "/v1/x")),
        ("echo", ("echo", "/")),
        ("echo?a=%2f..", ("echo", "/?a=%2f..")),
        ("echo/v1//x%20y?q", ("echo", "/v1//x%20y?q")),
        ("echo/", ("echo", "/")),
        ("echo/a:b/c@d;e", ("echo", "/a:b/c@d;e")),
    ],
)
def test_addresses_that_are_passed_on_unchanged(rest: str, expected: tuple[str, str]) -> None:
    assert target(PREFIX + rest) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "/hub/api",
        "http://hub/services/portal/models/echo/",
        PREFIX,
        PREFIX + "Echo/x",
        PREFIX + "e/x",
        PREFIX + "echo/../other/x",
        PREFIX + "echo/v1/./x",
        PREFIX + "echo/v1/..",
        PREFIX + "echo/v1/%2e%2E/admin",
        PREFIX + "echo/v1/..%2fadmin",
        PREFIX + "echo/v1/%5c..",
        PREFIX + "echo/v1/%252e",
        PREFIX + "echo/v1\\..\\x",
        PREFIX + "echo/%0d%0aX: y",
        PREFIX + "echo/%zz",
        PREFIX + "echo/\xe9",
        PREFIX + "echo/a#b",
    ],
)
def test_addresses_that_could_be_read_in_two_ways_are_refused(raw: str) -> None:
    with pytest.raises(Refused):
        target(raw)


@pytest.mark.parametrize("value", ["", "Basic x", "Bearer", "Bearer a b", "Bearer é", "x" * 2000])
def test_no_token(value: str) -> None:
    with pytest.raises(Refused) as refused:
        token(CIMultiDictProxy(CIMultiDict(Authorization=value)))
    assert refused.value.status == 401


def test_two_tokens_are_none() -> None:
    two = CIMultiDict([("Authorization", "Bearer a"), ("authorization", "Bearer b")])
    with pytest.raises(Refused):
        token(CIMultiDictProxy(two))
    assert token(CIMultiDictProxy(CIMultiDict(Authorization="token  abc"))) == "abc"


def test_a_value_with_a_line_end_is_not_sent() -> None:
    with pytest.raises(Refused):
        sent(CIMultiDictProxy(CIMultiDict(A="b\rc")), "echo", "ada")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/v1/x/", f"{PREFIX}echo/v1/x/"),
        ("http://echo/v1/x/", f"{PREFIX}echo/v1/x/"),
        ("//evil.org/", "//evil.org/"),
        ("https://example.org/", "https://example.org/"),
    ],
)
def test_redirects_of_the_program_stay_below_the_model(location: str, expected: str) -> None:
    headers = CIMultiDictProxy(CIMultiDict(Location=location))
    assert returned(headers, "echo")["Location"] == expected
