"""Variables that go from one kernel to the other: as a header (JSON) and one buffer each.

Arrays and tensors go as their bytes, plain values as JSON, everything else as a pickle. This module
runs in both kernels: it imports libraries only if a variable is of theirs.
"""

from __future__ import annotations

import importlib
import io
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any

MIB = 1024 * 1024
LIMIT = 256 * MIB  # bytes that are sent with a cell, each way
_LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "tensorflow": "TensorFlow"}
_DEPTH = 50  # of plain values; deeper ones are pickled


class Refused(Exception):
    """Variable that cannot be sent or received; the text is a sentence that names it."""


class _Full(Exception):
    """More bytes than are left."""


def pack(
    namespace: Mapping[str, Any], names: Sequence[str], limit: int, where: str
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the headers and the buffers of variables, at most ``limit`` bytes. ``where``: the
    kernel in words, "in this notebook". Raises Refused."""
    headers, buffers, left = [], [], limit
    for name in names:
        if name not in namespace:
            raise Refused(f"The variable '{name}' is not defined {where}.")
        header, buffer = _packed(name, namespace[name], left, limit)
        left -= memoryview(buffer).nbytes
        headers.append({"name": name, **header})
        buffers.append(buffer)
    return headers, buffers


def unpack(headers: Sequence[dict[str, Any]], buffers: Sequence[Any], where: str) -> dict[str, Any]:
    """Return variables by name, from their headers and buffers. Raises Refused."""
    values = {}
    for header, buffer in zip(headers, buffers):
        name, kind = header["name"], header["kind"]
        try:
            values[name] = _READERS[kind](header, buffer)
        except ImportError as error:
            library = _LIBRARIES.get(kind) or str(error)
            missing = f"{library} is not installed" if kind in _LIBRARIES else f"it needs {library}"
            raise Refused(f"'{name}' cannot be received {where}: {missing}.") from None
        except Exception as error:
            raise Refused(
                f"'{name}' cannot be received {where}: {type(error).__name__}: {error}. Classes "
                "and functions that are defined in cells must be defined in both kernels."
            ) from None
    return values


def _packed(name: str, value: Any, left: int, limit: int) -> tuple[dict[str, Any], Any]:
    for pack_one in (_pack_numpy, _pack_torch, _pack_tensorflow, _pack_plain):
        packed = pack_one(name, value, left, limit)
        if packed is not None:
            return packed
    return _pack_pickle(name, value, left, limit)


def _check(name: str, size: int, left: int, limit: int, way: str = "") -> None:
    """Raise Refused if ``size`` bytes are more than are ``left`` of the limit."""
    if size > left:
        raise _too_large(name, _mib(size), left, limit, way)


def _too_large(name: str, size: str, left: int, limit: int, way: str = "") -> Refused:
    others = "" if left == limit else f", of which other variables take {_mib(limit - left)}"
    example = f", for example with {way}" if way else ""
    return Refused(
        f"'{name}' has {size}, and at most {_mib(limit)} are sent with a cell{others}. Save it to "
        f"a file in your home directory, which both kernels see{example}, or raise the limit with "
        "--limit MIB."
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB" if size % MIB == 0 else f"{size / MIB:.1f} MiB"


# -- NumPy ------------------------------------------------------------------------------------


def _pack_numpy(name: str, value: Any, left: int, limit: int) -> tuple[dict[str, Any], Any] | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    dtype = value.dtype
    plain = dtype.kind in "biufcmMSU" and dtype.itemsize and numpy.dtype(dtype.str) == dtype
    if not plain:
        return None
    _check(name, value.nbytes, left, limit, f"numpy.save('{name}.npy', {name})")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    header = {"kind": "numpy", "dtype": dtype.str, "shape": list(value.shape), "order": order}
    return header, _bytes_of(numpy, value.T if order == "F" else value)


def _bytes_of(numpy: Any, array: Any) -> Any:
    """Return the bytes of an array in the order of C; NumPy exports no dates as buffers."""
    if not array.size:
        return b""
    return memoryview(numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8))


def _read_numpy(header: dict[str, Any], buffer: Any, dtype: Any = None) -> Any:
    numpy = importlib.import_module("numpy")
    dtype, shape = numpy.dtype(dtype or header["dtype"]), header["shape"]
    fortran = header.get("order") == "F"
    if not memoryview(buffer).nbytes:
        return numpy.empty(shape, dtype, order="F" if fortran else "C")
    flat = numpy.frombuffer(bytearray(buffer), dtype)  # a copy: what is received can be changed
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


# -- tensors ----------------------------------------------------------------------------------


def _pack_torch(name: str, value: Any, left: int, limit: int) -> tuple[dict[str, Any], Any] | None:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None:
        return None
    parameter = type(value) is torch.nn.Parameter
    if not (type(value) is tensor or parameter) or value.layout is not torch.strided:
        return None
    if value.is_quantized:
        return None
    size = value.numel() * value.element_size()
    _check(name, size, left, limit, f"torch.save({name}, '{name}.pt')")
    header = {
        "kind": "torch",
        "dtype": str(value.dtype).partition(".")[2],
        "shape": list(value.shape),
        "gradient": bool(value.requires_grad),
        "parameter": parameter,
    }
    if not size:
        return header, b""
    data = value.detach()
    for resolved in ("resolve_conj", "resolve_neg"):
        data = getattr(data, resolved, lambda data=data: data)()
    data = data.cpu().contiguous().reshape(-1)
    try:
        return header, memoryview(data.view(torch.uint8).numpy())
    except RuntimeError:  # a PyTorch without NumPy
        return None


def _read_torch(header: dict[str, Any], buffer: Any) -> Any:
    torch = importlib.import_module("torch")
    dtype, shape = getattr(torch, header["dtype"]), header["shape"]
    if memoryview(buffer).nbytes:
        value = torch.frombuffer(bytearray(buffer), dtype=dtype).reshape(shape)
    else:
        value = torch.empty(shape, dtype=dtype)
    if header["parameter"]:
        return torch.nn.Parameter(value, requires_grad=header["gradient"])
    return value.requires_grad_() if header["gradient"] else value


def _pack_tensorflow(
    name: str, value: Any, left: int, limit: int
) -> tuple[dict[str, Any], Any] | None:
    tensorflow = sys.modules.get("tensorflow")
    kinds = (getattr(tensorflow, "Tensor", None), getattr(tensorflow, "Variable", None))
    if tensorflow is None or None in kinds or not isinstance(value, kinds):
        return None
    if not hasattr(value, "numpy"):
        raise Refused(f"'{name}' is a symbolic tensor without a value.")
    if value.dtype in (tensorflow.string, tensorflow.resource, tensorflow.variant):
        raise Refused(f"'{name}' is a tensor of {value.dtype.name}s. Send {name}.numpy() instead.")
    size = int(tensorflow.size(value)) * value.dtype.size
    _check(name, size, left, limit, f"numpy.save('{name}.npy', {name}.numpy())")
    array = value.numpy()
    header = {
        "kind": "tensorflow",
        "dtype": value.dtype.name,
        "shape": list(array.shape),
        "variable": isinstance(value, tensorflow.Variable),
    }
    return header, _bytes_of(importlib.import_module("numpy"), array)


def _read_tensorflow(header: dict[str, Any], buffer: Any) -> Any:
    tensorflow = importlib.import_module("tensorflow")
    dtype = tensorflow.as_dtype(header["dtype"])
    value = tensorflow.constant(_read_numpy(header, buffer, dtype.as_numpy_dtype), dtype=dtype)
    return tensorflow.Variable(value) if header["variable"] else value


# -- everything else --------------------------------------------------------------------------


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return True for what JSON returns as it was."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return True
    if depth >= _DEPTH:
        return False
    if kind is list:
        return all(_is_plain(part, depth + 1) for part in value)
    if kind is dict:
        return all(type(key) is str and _is_plain(part, depth + 1) for key, part in value.items())
    return False


def _pack_plain(name: str, value: Any, left: int, limit: int) -> tuple[dict[str, Any], Any] | None:
    if not _is_plain(value):
        return None
    try:
        text = json.dumps(value).encode()
    except ValueError:  # an integer with more digits than Python prints
        return None
    _check(name, len(text), left, limit)
    return {"kind": "json"}, text


def _read_plain(_header: dict[str, Any], buffer: Any) -> Any:
    return json.loads(bytes(buffer))


class _Bounded(io.BytesIO):
    """Pickle of at most ``left`` bytes."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def write(self, data: Any) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise _Full
        return super().write(data)


def _pack_pickle(name: str, value: Any, left: int, limit: int) -> tuple[dict[str, Any], Any]:
    file = _Bounded(left)
    try:
        pickle.Pickler(file, protocol=4).dump(value)
    except _Full:
        raise _too_large(name, f"more than {_mib(left)}", left, limit) from None
    except Exception as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
        raise Refused(
            f"'{name}' cannot be sent: a {kind} cannot be pickled ({error}). Create it in the cell "
            "that runs on the GPU."
        ) from None
    return {"kind": "pickle"}, file.getbuffer()


def _read_pickle(_header: dict[str, Any], buffer: Any) -> Any:
    return pickle.loads(buffer)  # noqa: S301 - of the same user's own kernel


_READERS = {
    "numpy": _read_numpy,
    "torch": _read_torch,
    "tensorflow": _read_tensorflow,
    "json": _read_plain,
    "pickle": _read_pickle,
}
