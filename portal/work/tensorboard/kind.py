"""A TensorBoard of its own, after a session: its log folders, and the resources it may use.

It is a session like others, in a job without GPUs, whose server opens TensorBoard instead of
JupyterLab (portal_session reads PORTAL_TENSORBOARD).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Self

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.kinds.kind import AskedFor, Kind, LaunchFacts, Lookup, Place, environment_of
from portal.launch.limits.limits import within
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources

OPTION = "tensorboard"  # the key of ``user_options`` with the folders
SERVER = "tensorboard"  # the named server, beside the person's session
PAGE = "/portal/tensorboard/"  # of portal_session, below the server's address
MOST = 20  # folders
LONGEST = 1000  # characters of one


class TensorBoard(Kind):
    """TensorBoard on ``folders``: as asked for; in a launch request, absolute and the person's."""

    name = "tensorboard"
    title = "TensorBoard"
    option = OPTION

    folders: tuple[str, ...]

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        folders = read_folders(options.get(OPTION))
        return cls(folders=folders) if folders else None

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        largest = Resources.model_validate(hub.setting("tensorboard_resources"))
        offered = {
            name: for_tensorboard(environment, largest)
            for name, environment in (await hub.environments()).items()
        }
        roots = hub.roots(environment_of(asked.environment, offered))
        folders = below(self.folders, await hub.home(), roots)
        return Place(offered, facts.snapshot, TensorBoard(folders=folders))

    def own(self) -> dict[str, Any]:
        return {OPTION: list(self.folders)}

    def variables(self) -> dict[str, str]:
        return {"PORTAL_TENSORBOARD": json.dumps(self.folders), "JUPYTERHUB_DEFAULT_URL": PAGE}


def read_folders(value: object) -> tuple[str, ...]:
    """Return each folder once, normalized: absolute, or from "~" on. Raises InvalidRequest."""
    if value is None or value == "":
        return ()
    if not isinstance(value, list | tuple) or not value:
        raise InvalidRequest(f"'{OPTION}' must be a list of log folders.", field=OPTION)
    if len(value) > MOST:
        raise InvalidRequest(f"A TensorBoard shows at most {MOST} log folders.", field=OPTION)
    return tuple(dict.fromkeys(_folder(folder) for folder in value))


def _folder(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest("A log folder must be text.", field=OPTION)
    folder = value.strip(" ")
    if not folder or len(folder) > LONGEST or not folder.isprintable():
        raise InvalidRequest(
            f"The path of a log folder must have 1 to {LONGEST} printable characters.", field=OPTION
        )
    if not (folder.startswith("/") or folder == "~" or folder.startswith("~/")):
        raise InvalidRequest(
            f"'{folder[:60]}' is not a valid path. Enter an absolute path, /…, or a path in "
            "your home, ~/….",
            field=OPTION,
        )
    if ".." in folder.split("/"):
        raise InvalidRequest("The path of a log folder may not contain '..'.", field=OPTION)
    # normpath keeps two slashes at the beginning, which POSIX lets mean something else.
    return posixpath.normpath(f"/{folder.lstrip('/')}" if folder[0] == "/" else folder)


def below(folders: Sequence[str], home: str, areas: Sequence[str]) -> tuple[str, ...]:
    """Return the folders as absolute paths, if all of them are in ``home`` or one of ``areas``.

    Names are compared: links are resolved in the job, where the person's own rights count. Raises
    NotAllowed.
    """
    roots = list(dict.fromkeys(posixpath.normpath(root) for root in (home, *areas)))
    absolute = [home + folder[1:] if folder.startswith("~") else folder for folder in folders]
    for folder in absolute:
        if not any(folder == root or folder.startswith(f"{root.rstrip('/')}/") for root in roots):
            raise NotAllowed(
                f"'{folder[:200]}' is not in one of your folders. TensorBoard can show "
                f"folders in: {', '.join(roots)}."
            )
    return tuple(dict.fromkeys(absolute))


def for_tensorboard(environment: Environment, largest: Resources) -> Environment:
    """Return ``environment`` as TensorBoard's jobs may use it: without GPUs, with ``largest`` as
    both its default and its limit. Account and QOS stay those of the environment."""
    own = environment.default
    usual = {"account": own.account, "qos": own.qos, **largest.given()}
    cut = within(environment, {key: value for key, value in usual.items() if value is not None})
    cut |= {"gpus": 0, "nodes": 1}
    cut.pop("gpu_type", None)
    return environment.model_copy(
        update={
            "title": f"TensorBoard in {environment.title}"[:120],
            "gpu_types": (),
            "default": Resources(**cut),
            "max_gpus": 0,
            "max_cpus": cut.get("cpus"),
            "max_memory": cut.get("memory"),
            "max_time": cut.get("time"),
        }
    )
