"""Facts about the framework's Python. This file's text runs in that kernel: Python 2.7 and newer.

Each framework is imported in a process of its own, with a time limit: one that hangs or crashes
affects nothing else, and the kernel's own folder of added packages is not seen.
"""

import json
import os
import re
import subprocess
import sys
import threading

_SAY = """
import json, sys
def say(**found):
    kept = dict((name, str(value)) for name, value in found.items() if value not in (None, ""))
    sys.stdout.write("PORTAL " + json.dumps(kept) + "\\n")
def number(value):
    # 90100 is 9.1.0 and 8907 is 8.9.7 (cudnn_version.h); 21805 is 2.18.5 (nccl.h)
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value)
    value = int(value)
    if value >= 10000:
        return "%d.%d.%d" % (value // 10000, value // 100 % 100, value % 100)
    return "%d.%d.%d" % (value // 1000, value // 100 % 10, value % 100)
def maybe(read):
    try:
        return read()
    except Exception:
        return None
"""

# By module name: code that reports its versions, and how many GPUs it sees.
_FRAMEWORKS = [
    (
        "torch",
        "import torch\n"
        "say(torch=torch.__version__, cuda=torch.version.cuda, gpus=torch.cuda.device_count(),\n"
        "    rocm=maybe(lambda: torch.version.hip.split('-')[0]),\n"
        "    cudnn=maybe(lambda: number(torch.backends.cudnn.version())),\n"
        "    nccl=maybe(lambda: number(torch.cuda.nccl.version())))",
    ),
    (
        "tensorflow",
        "import tensorflow as tf\n"
        "about = maybe(lambda: tf.sysconfig.get_build_info()) or {}\n"
        "gpus = maybe(lambda: len(tf.config.list_physical_devices('GPU')))\n"
        "say(tensorflow=tf.__version__, cuda=about.get('cuda_version'), gpus=gpus,\n"
        "    cudnn=about.get('cudnn_version'))",
    ),
    ("keras", "import keras\nsay(keras=keras.__version__)"),
    (
        "mxnet",
        "import mxnet\nsay(mxnet=mxnet.__version__, gpus=maybe(lambda: mxnet.context.num_gpus()))",
    ),
    (
        "cupy",
        "import cupy\n"
        "say(cupy=cupy.__version__, gpus=maybe(lambda: cupy.cuda.runtime.getDeviceCount()),\n"
        "    nccl=maybe(lambda: number(cupy.cuda.nccl.get_version())))",
    ),
    ("cudf", "import cudf\nsay(cudf=cudf.__version__)"),
    ("cuml", "import cuml\nsay(cuml=cuml.__version__)"),
    ("caffe2", "import torch\nfrom caffe2.python import core\nsay(caffe2=torch.__version__)"),
    ("horovod", "import horovod\nsay(horovod=horovod.__version__)"),
    ("mpi4py", "import mpi4py\nsay(mpi4py=mpi4py.__version__)"),
    ("numpy", "import numpy\nsay(numpy=numpy.__version__)"),
    ("jax", "import jax\nsay(jax=jax.__version__, gpus=maybe(lambda: len(jax.devices('gpu'))))"),
]

_PACKAGES = """
try:
    from importlib import metadata
    found = [(package.metadata["Name"], package.version) for package in metadata.distributions()]
except ImportError:
    import pkg_resources
    found = [(package.project_name, package.version) for package in pkg_resources.working_set]
import json, sys
names = sorted(set("%s==%s" % pair for pair in found if pair[0]), key=lambda name: name.lower())
sys.stdout.write("PORTAL " + json.dumps({"packages": names}) + "\\n")
"""

_PROGRAMS = [
    ("cuda", ["nvcc", "--version"], r"release ([0-9.]+)"),
    ("mpi", ["mpirun", "--version"], r"([0-9]+(?:\.[0-9]+)+)"),
    ("r", ["R", "--version"], r"R version ([0-9.]+)"),
]
# As NVIDIA's images name them.
_VARIABLES = [
    ("cuda", "CUDA_VERSION"),
    ("cudnn", "CUDNN_VERSION"),
    ("nccl", "NCCL_VERSION"),
    ("mpi", "OPENMPI_VERSION"),
]


def _output(argv, seconds):
    """Return the output of a program; "" if it is missing, fails or takes too long."""
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (OSError, ValueError):
        return ""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        return process.communicate()[0].decode("utf-8", "replace")
    finally:
        timer.cancel()


def _answer_of(code, seconds):
    for line in _output([sys.executable, "-c", _SAY + code], seconds).splitlines():
        if line.startswith("PORTAL "):
            return json.loads(line[len("PORTAL ") :])
    return {}


def _is_there(name):
    """Return True if a module can be found, without importing it."""
    try:
        from importlib.util import find_spec

        return find_spec(name) is not None
    except ImportError:
        import imp

        try:
            imp.find_module(name)
        except ImportError:
            return False
        return True


def collect(seconds):
    """Return ``versions``, ``packages``, ``added``, ``gpus``; ``seconds`` for each framework."""
    versions = {"python": ".".join(str(part) for part in sys.version_info[:3])}
    gpus = None
    for name, code in _FRAMEWORKS:
        if not _is_there(name):
            continue
        reported = _answer_of(code, seconds)
        if "gpus" in reported:
            gpus = max(gpus or 0, int(reported.pop("gpus")))
        for key, value in reported.items():
            versions.setdefault(key, value)
    for key, argv, pattern in _PROGRAMS:
        match = re.search(pattern, _output(argv, 20))
        if match and key not in versions:
            versions[key] = match.group(1)
    for key, variable in _VARIABLES:
        match = re.match(r"[0-9]+(\.[0-9]+)*", os.environ.get(variable, ""))
        if match and key not in versions:
            versions[key] = match.group(0)
    packages = _answer_of(_PACKAGES, 60).get("packages", [])
    all_packages = _with_added()
    added = [package for package in all_packages if package not in packages] if packages else []
    return {"versions": versions, "packages": packages, "added": added, "gpus": gpus}


def _with_added():
    """List the packages that this kernel sees."""
    try:
        from importlib import metadata
    except ImportError:
        return []
    packages = [
        (distribution.metadata["Name"], distribution.version)
        for distribution in metadata.distributions()
    ]
    return sorted(set("%s==%s" % pair for pair in packages if pair[0]))  # noqa: UP031
