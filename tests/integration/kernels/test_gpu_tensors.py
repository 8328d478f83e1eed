"""Tensors of ``%%gpu``, with the real libraries."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from frameworks import python_of
from portal_session.job_kernels.magic import variables

# Loads the module from its file, as kernels do that lack this package.
LOAD = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("variables", sys.argv[1])
variables = importlib.util.module_from_spec(spec); spec.loader.exec_module(variables)
def sent(value):
    headers, buffers = variables.pack({"x": value}, ["x"], 1 << 20, "here")
    return headers[0], variables.unpack(headers, [bytes(b) for b in buffers], "there")["x"]
def refused(value):
    try:
        sent(value)
    except variables.Refused as error:
        return str(error)
"""
TORCH = """
import torch
for value in (torch.arange(6.).reshape(2, 3).t(), torch.tensor(3), torch.empty(0, 2),
              torch.ones(2, dtype=torch.bfloat16), torch.tensor([True]),
              torch.tensor([1 + 2j]).conj(), torch.ones(2, requires_grad=True) * 2,
              torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.zeros(2))):
    header, got = sent(value)
    assert header["kind"] == "torch", header
    assert (got.dtype, got.shape, type(got)) == (value.dtype, value.shape, type(value)), value
    assert got.requires_grad == value.requires_grad and torch.equal(got, value), value
    got.data.zero_() if got.numel() else None
header, got = sent(torch.eye(2).to_sparse())
assert header["kind"] == "pickle" and got.is_sparse
header, got = sent({"weights": torch.ones(2)})
assert header["kind"] == "pickle" and torch.equal(got["weights"], torch.ones(2))
assert "torch.save(x, 'x.pt')" in refused(torch.zeros(1 << 20)), refused(torch.zeros(1 << 20))
(header,), (buffer,) = variables.pack({"x": torch.ones(2)}, ["x"], 1 << 20, "here")
print(json.dumps([header, list(bytes(buffer))]))
"""
TENSORFLOW = """
import tensorflow as tf
for value in (tf.reshape(tf.range(6.), (2, 3)), tf.constant(3), tf.zeros((0, 2)),
              tf.constant([True]), tf.cast(tf.constant([1.5, 2]), tf.bfloat16)):
    header, got = sent(value)
    assert header["kind"] == "tensorflow", header
    assert (got.dtype, got.shape) == (value.dtype, value.shape), value
    assert bool(tf.reduce_all(got == value)), value
header, got = sent(tf.Variable([1., 2.]))
assert isinstance(got, tf.Variable) and got.numpy().tolist() == [1, 2]
assert refused(tf.constant(["a"])) == "'x' is a tensor of strings. Send x.numpy() instead."
assert "numpy.save('x.npy', x.numpy())" in refused(tf.zeros(1 << 20))
(header,), (buffer,) = variables.pack({"x": tf.ones(2)}, ["x"], 1 << 20, "here")
print(json.dumps([header, list(bytes(buffer))]))
"""


@pytest.mark.parametrize(
    ("name", "script", "title"),
    [("torch", TORCH, "PyTorch"), ("tensorflow", TENSORFLOW, "TensorFlow")],
)
def test_tensors_go_without_pickling(name: str, script: str, title: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [python_of(name), "-c", LOAD + script, variables.__file__],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    header, numbers = json.loads(done.stdout.splitlines()[-1])
    with pytest.raises(variables.Refused) as error:  # this Python has neither
        variables.unpack([header], [bytes(numbers)], "in this notebook")
    assert str(error.value) == f"'x' cannot be received in this notebook: {title} is not installed."
