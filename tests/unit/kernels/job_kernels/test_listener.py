"""Ports on which relays wait for the jobs of their kernels."""

from __future__ import annotations

import contextlib
import socket

import pytest
from portal_session.job_kernels.wire.listener import listening
from traitlets import TraitError

from portal.work.kernel.settings import JobKernels


def free_pair() -> int:
    """The first of two ports, one after the other, that are free now."""
    for _ in range(100):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            with contextlib.suppress(OSError):
                socket.create_server(("127.0.0.1", first + 1)).close()
                return int(first)
    raise AssertionError("no two free ports are next to each other")


def test_it_is_one_of_the_site_s_range_and_a_sentence_says_if_none_is_free() -> None:
    first = free_pair()
    ports = f"{first}-{first + 1}"
    with contextlib.ExitStack() as stack:
        taken = {
            stack.enter_context(listening("127.0.0.1", socket.AF_INET, ports)).getsockname()[1]
            for _ in range(2)
        }
        assert taken == {first, first + 1}
        with pytest.raises(OSError, match=f"None of the ports {ports} of this node is free"):
            listening("127.0.0.1", socket.AF_INET, ports)


def test_without_a_range_it_is_any() -> None:
    with listening("127.0.0.1", socket.AF_INET, "") as bound:
        assert bound.getsockname()[1] > 0


@pytest.mark.parametrize("value", ["", "1024-1024", "40000-40999", "60000-65535"])
def test_ranges_that_a_site_may_set(value: str) -> None:
    assert JobKernels(ports=value).ports == value


@pytest.mark.parametrize(
    "value", ["40000", "40999-40000", "80-90", "60000-65536", "40000-", "a-b", "40000-40999 "]
)
def test_other_ranges_are_refused_with_a_sentence(value: str) -> None:
    with pytest.raises(TraitError, match="must be a range of ports from 1024 to 65535"):
        JobKernels(ports=value)
