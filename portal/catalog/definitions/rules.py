"""Rules of a site for its environments: host paths that they see, variables that they set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from traitlets import Enum, List, TraitError, Unicode, validate
from traitlets.config import LoggingConfigurable

from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.setting import setting

from .problems import CatalogError, Place, dotted

# Never bound, whatever the settings say: neither these, nor what is below them, nor a folder that
# contains them. Docker's socket is root; the others hold passwords, keys or others' processes.
_NEVER_SEEN = (
    "/boot",
    "/etc/data-scientist-portal",
    "/etc/gshadow",
    "/etc/krb5.keytab",
    "/etc/munge",
    "/etc/pki/tls/private",
    "/etc/shadow",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/proc",
    "/root",
    "/run/docker.sock",
    "/sys",
    "/var/lib/data-scientist-portal",
    "/var/run/docker.sock",
    "/var/spool/slurm",
    "/var/spool/slurmd",
)
# Reserved names: parts of addresses of the API and pages, in the place of an environment's name.
_ADDRESSES = ("own", "request", "test-all", "validate")
# Parts of every container that no bind may cover.
_NEVER_COVERED = ("/dev", "/opt/data-scientist-portal", "/proc", "/sys")


class CatalogRules(LoggingConfigurable):
    """Rules for the environments of this site. A file that breaks one is an error and not offered;
    pages and the API refuse to save it."""

    allowed_binds = setting(
        List(
            Unicode(),
            [
                "/data",
                "/datasets",
                "/etc/pip.conf",
                "/etc/pki/ca-trust",
                "/etc/pki/tls/certs",
                "/etc/ssl/certs",
                "/projects",
                "/scratch",
                "/shared",
            ],
        ),
        """Host paths that environments may bind, including everything below them. Paths of
        passwords, keys or processes (``/etc/shadow``, ``/root``, ``/proc``, ``/``…) are refused
        even if they are listed here. Bind mounts of *every* container are set in
        ``c.PortalSpawner.binds``.""",
        'c.CatalogRules.allowed_binds = ["/data", "/scratch", "/opt/licenses"]',
    )

    allowed_variables = setting(
        List(
            Unicode(),
            [
                "CUBLAS_*",
                "CUDA_*",
                "CUDNN_*",
                "DASK_*",
                "GLOO_*",
                "HF_*",
                "HOROVOD_*",
                "HTTPS_PROXY",
                "HTTP_PROXY",
                "JULIA_*",
                "KERAS_*",
                "LANG",
                "LC_*",
                "MKL_*",
                "MODULEPATH",
                "MXNET_*",
                "NCCL_*",
                "NO_PROXY",
                "NUMBA_*",
                "NUMEXPR_*",
                "NVIDIA_*",
                "OMPI_*",
                "OMP_*",
                "OPENBLAS_*",
                "PIP_*",
                "PYTORCH_*",
                "R_*",
                "TF_*",
                "TORCH_*",
                "TZ",
                "UCX_*",
                "UV_*",
                "XLA_*",
                "http_proxy",
                "https_proxy",
                "no_proxy",
            ],
        ),
        """Environment variables that environments may set; ``*`` matches any characters. Variables
        that define a session's identity or the code that it loads (``PATH``, ``LD_…``,
        ``JUPYTERHUB_…``) are refused even if they are listed here.""",
        'c.CatalogRules.allowed_variables = ["CUDA_*", "NCCL_*", "SITE_LICENSE_SERVER"]',
    )

    icons = setting(
        List(Unicode()),
        """Allowed values of ``icon``. Empty: any; for an unknown icon, the pages show the icon of
        the kind.""",
        'c.CatalogRules.icons = ["pytorch", "tensorflow", "r", "container"]',
    )

    own_environments = setting(
        Enum(("off", "groups", "on"), "off"),
        """Users who may register a SIF file or virtual environment of their own, visible only to
        them: none ("off"), members of ``own_groups`` ("groups") or everyone ("on"). It must pass
        the same test as environments of the catalog.""",
        'c.CatalogRules.own_environments = "on"',
    )

    own_groups = setting(
        List(Unicode()),
        """Groups whose members may register their own environments if ``own_environments`` is
        "groups".""",
        'c.CatalogRules.own_groups = ["advanced-users"]',
    )

    @validate("allowed_binds")
    def _absolute(self, proposal: Any) -> list[str]:
        for path in proposal["value"]:
            if not path.startswith("/") or _normal(path) is None:
                raise TraitError(f"CatalogRules.allowed_binds: {path!r} is not an absolute path")
        return list(proposal["value"])

    def may_register(self, person: Person) -> bool:
        """Return True if ``person`` may have an environment of their own."""
        if self.own_environments == "groups":
            return not set(self.own_groups).isdisjoint(person.groups)
        return bool(self.own_environments == "on")

    def problems(
        self,
        environment: Environment,
        file: str = "",
        line_of: Callable[[Place], int] | None = None,
    ) -> list[CatalogError]:
        """Return everything in ``environment`` that this site does not allow, each with its key,
        and its line if ``line_of`` knows it."""
        return [
            CatalogError(
                file=file,
                line=line_of(place) if line_of else None,
                message=f"'{dotted(place)}': {reason}",
                field=dotted(place),
            )
            for place, reason in self._broken(environment)
        ]

    def _broken(self, environment: Environment) -> Iterable[tuple[Place, str]]:
        if environment.name in _ADDRESSES:
            yield ("name",), "this name is reserved by the portal; choose another"
        for number, bind in enumerate(environment.binds):
            if reason := self._source(bind.source):
                yield ("binds", number, "source"), reason
            if bind.target and (reason := _target(bind.target)):
                yield ("binds", number, "target"), reason
        for name in environment.variables:
            if not any(fnmatchcase(name, pattern) for pattern in self.allowed_variables):
                yield (
                    ("variables", name),
                    "this site does not allow this variable (c.CatalogRules.allowed_variables)",
                )
        if environment.icon and self.icons and environment.icon not in self.icons:
            yield ("icon",), f"this site allows the icons {', '.join(self.icons)}"

    def _source(self, path: str) -> str:
        normal = _normal(path)
        if normal is None:
            return "a bind mount may not contain '..'"
        for forbidden in _NEVER_SEEN:
            if _within(normal, forbidden) or _within(forbidden, normal):
                return f"{path} may never be bound into a container"
        if not any(_within(normal, _normal(prefix) or "") for prefix in self.allowed_binds):
            return (
                f"this site does not allow {path} as a bind mount "
                f"(c.CatalogRules.allowed_binds: {', '.join(self.allowed_binds) or 'none'})"
            )
        return ""


def _target(path: str) -> str:
    normal = _normal(path)
    if normal is None:
        return "a bind mount may not contain '..'"
    if normal == "/" or any(_within(normal, folder) for folder in _NEVER_COVERED):
        return f"a bind mount may not cover {path} in the container"
    return ""


def _normal(path: str) -> str | None:
    """Return the path without '.', doubled and trailing slashes; None if it contains '..'.

    Not os.path.normpath, which keeps two leading slashes (POSIX lets them mean something else).
    """
    parts = [part for part in re.split("/+", path) if part not in ("", ".")]
    return None if ".." in parts else "/" + "/".join(parts)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
