"""Variables of ``%%gpu`` on their way to the other kernel and back."""

from __future__ import annotations

import sys
import types
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from portal_session.job_kernels.magic.variables import MIB, Refused, pack, unpack

THERE = "in the other kernel"


def _sent(value: Any, limit: int = MIB) -> tuple[str, Any]:
    """The kind of a value's header, and what arrives: buffers are bytes then."""
    headers, buffers = pack({"x": value}, ["x"], limit, "in this notebook")
    arrived = [memoryview(bytes(buffer)) for buffer in buffers]
    return headers[0]["kind"], unpack(headers, arrived, THERE)["x"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype="float32").reshape(3, 4),
        np.arange(12).reshape(3, 4).T,
        np.arange(24).reshape(2, 3, 4)[:, ::2, 1:],
        np.array(7.5),
        np.empty((0, 3), "int16"),
        np.array([True, False]),
        np.array([1 + 2j], "complex64"),
        np.array(["a", "äöü"]),
        np.array([b"ab"]),
        np.array(["2026-11-26"], "datetime64[D]"),
        np.arange(3, dtype=">i4"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_go_without_pickling(array: np.ndarray) -> None:
    kind, arrived = _sent(array)
    assert kind == "numpy"
    assert (arrived.dtype, arrived.shape) == (array.dtype, array.shape)
    assert np.array_equal(arrived, array)
    assert arrived.flags.writeable
    assert arrived.flags.f_contiguous == array.flags.f_contiguous or not array.flags.f_contiguous


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}, None], object),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        np.ma.masked_array([1, 2], [True, False]),
        np.float32(1.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_arrays_are_pickled(array: Any) -> None:
    kind, arrived = _sent(array)
    assert kind == "pickle" and type(arrived) is type(array)
    assert np.array_equal(arrived, array)


@pytest.mark.parametrize(
    "value",
    ["ä\ud800", 1, 10**30, 1.5, float("inf"), True, None, [1, [2.5, "a"]], {"a": {"b": [None]}}],
    ids=ascii,
)
def test_plain_values_go_as_json(value: Any) -> None:
    assert _sent(value) == ("json", value)


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1: 2}, {"a": (1,)}, {1, 2}, b"ab", 10**5000, Decimal("1.5"), [[[1, {2}]]]],
    ids=lambda value: type(value).__name__,
)
def test_the_rest_is_pickled(value: Any) -> None:
    kind, arrived = _sent(value)
    assert kind == "pickle" and arrived == value and type(arrived) is type(value)


def test_what_contains_itself_is_pickled() -> None:
    value: list[Any] = []
    value.append(value)
    kind, arrived = _sent(value)
    assert kind == "pickle" and arrived[0] is arrived


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(Refused, match=r"'x' cannot be sent: a generator cannot be pickled"):
        _sent(number for number in ())


def test_what_is_not_defined_is_named() -> None:
    with pytest.raises(Refused, match=r"The variable 'y' is not defined in this notebook\."):
        pack({}, ["y"], MIB, "in this notebook")


@pytest.mark.parametrize(
    ("value", "size", "way"),
    [
        (np.zeros(2 * MIB, "uint8"), "2 MiB", r"numpy\.save\('x\.npy', x\)"),
        ("a" * (MIB + MIB // 2), r"1\.5 MiB", "which both kernels see,"),
        (b"a" * (2 * MIB), "more than 1 MiB", "which both kernels see,"),
    ],
    ids=["array", "text", "bytes"],
)
def test_what_is_too_large_is_named(value: Any, size: str, way: str) -> None:
    with pytest.raises(Refused, match=rf"'x' has {size}, and at most 1 MiB are sent .*{way}"):
        _sent(value)


def test_the_limit_is_for_all_variables_together() -> None:
    values = {"a": np.zeros(MIB // 2, "uint8"), "b": np.zeros(MIB // 2 + 1, "uint8")}
    assert len(pack(values, ["a"], MIB, "here")[0]) == len(pack(values, ["b"], MIB, "here")[0]) == 1
    with pytest.raises(Refused, match=r"'b' has 0\.5 MiB.* of which other variables take 0\.5 MiB"):
        pack(values, ["a", "b"], MIB, "here")


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    headers, buffers = pack({"x": np.zeros(3)}, ["x"], MIB, "here")
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(Refused, match=r"'x' cannot be received in the other kernel: NumPy is not"):
        unpack(headers, buffers, THERE)


def test_a_class_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("only_here")
    exec("class Net: pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    headers, buffers = pack({"x": module.Net()}, ["x"], MIB, "here")
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(Refused, match=r"'x' cannot be received .* it needs .*only_here"):
        unpack(headers, buffers, THERE)
    monkeypatch.setitem(sys.modules, "only_here", types.ModuleType("only_here"))
    with pytest.raises(Refused, match=r"AttributeError.*must be defined in both kernels"):
        unpack(headers, buffers, THERE)
