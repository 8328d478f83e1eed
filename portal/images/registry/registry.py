"""Queries to registries: which image a tag is, for which architecture, and how large.

skopeo sends them (`skopeo`): it speaks with every kind of registry and mirror. Nothing is pulled.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path

from traitlets import Float, Instance, List, Unicode, default
from traitlets.config import LoggingConfigurable

from portal.errors import InvalidRequest, PortalError, RegistryUnavailable
from portal.models.catalog.catalog import Registry, StoredRegistry
from portal.models.catalog.image import ResolvedImage, Source, SourceKind
from portal.setting import setting

from ..apptainer.definition_file import base_hosts, read_definition
from ..outcome import WorkFailed
from . import pull_files
from .credentials import Login, Secrets
from .manifest import Manifest, configuration, other_architecture
from .pull_files import PullFiles
from .skopeo import Answer, Skopeo, skopeo
from .words import Fault, fault_of

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NOBODY = "portal/none:none"  # a repository that no registry has


class Registries(LoggingConfigurable):
    """Queries to registries about images. ``stored``: cached state of each registry."""

    skopeo = setting(
        Unicode("skopeo"),
        "Program skopeo: a path, or a name that is found on PATH.",
        'c.Registries.skopeo = "/opt/skopeo/bin/skopeo"',
    )

    architecture = setting(
        Unicode(),
        """Processor architecture of the nodes, by OCI's name ("amd64", "arm64"). Default: that of
        the service's machine. Images for other architectures are refused.""",
        'c.Registries.architecture = "arm64"',
    )

    timeout = setting(
        Float(30.0, min=1),
        "Maximum seconds for one response of a registry.",
        "c.Registries.timeout = 60",
    )

    # Concurrent requests to registries, each of which is a process; others wait.
    parallel = 3

    internal_hosts = setting(
        List(Unicode()),
        """Hosts, domains (with a leading dot) and networks inside the site to which registries may
        redirect for tokens and files. Registries themselves may have any address except link-local
        ones, and a registry on a private network may redirect to others there. Loopback and
        link-local addresses need an entry.""",
        'c.Registries.internal_hosts = ["auth.registry.example.org:443"]',
    )

    secrets = Instance(Secrets)
    _turns = Instance(asyncio.Semaphore)

    @default("_turns")
    def _turns_default(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.parallel)

    def _architecture_default(self) -> str:
        machine = os.uname().machine
        return _ARCHITECTURES.get(machine, machine)

    def _secrets_default(self) -> Secrets:
        return Secrets(parent=self)

    async def resolve(self, source: Source, stored: Sequence[StoredRegistry]) -> ResolvedImage:
        """Return the image that ``source`` (of kind OCI) is now: the digest for this site's
        architecture, which is what to pin, and the bytes to be pulled.

        Raises InvalidRequest (field ``source``, or that of the registry's setting that is wrong)
        and RegistryUnavailable, each with a sentence that says what to do.
        """
        if source.kind is not SourceKind.OCI:
            raise InvalidRequest(f"{source} is a file; only docker:// has a registry.", "source")
        async with self._asking(source.host, stored) as asked:
            manifest = await self._manifest(asked, source, stored)
            if manifest.is_list:
                source = source.pinned(manifest.digest_for(self.architecture))
                manifest = await self._manifest(asked, source, stored)
            source = source.pinned(manifest.digest)
            answer = await self._ask(asked, source, stored, "inspect", "--raw", "--config")
        architecture, created = configuration(answer.stdout, str(source))
        if architecture != self.architecture:
            raise other_architecture(str(source), self.architecture, [architecture])
        return ResolvedImage(
            digest=manifest.digest,
            architecture=architecture,
            size=manifest.size,
            created=created,
        )

    async def check(self, host: str, stored: Sequence[StoredRegistry]) -> str:
        """Check that the registry (or its mirror) can be reached and takes the password; return a
        sentence on it. Raises what `resolve` raises."""
        entry = _of(host, stored)
        asked_host = entry.registry.mirror or host if entry else host
        logins = await asyncio.to_thread(self._logins, [host], stored)
        source = Source(kind=SourceKind.OCI, host=host, repository="portal/none", tag="none")
        async with self._asking(host, stored) as asked:
            login = logins.get(asked_host)
            if login is None:
                answer = await asked.ask(
                    "inspect", "--raw", f"docker://{host}/{_NOBODY}", seconds=self.timeout
                )
                fault, _ = fault_of(answer.stderr)
                # "There is no such image" is an answer, too.
                if fault not in (Fault.TAG, Fault.REPOSITORY, Fault.DENIED, Fault.PASSWORD):
                    raise await self._complaint(asked, answer, source, stored)
                return f"'{asked_host}' answers. No user and password are stored for it."
            insecure = entry is not None and entry.registry.insecure
            args = ["--username", login.username, "--password-stdin"]
            args += ["--tls-verify=false"] if insecure else []
            answer = await asked.ask(
                "login", *args, asked_host, seconds=self.timeout, text=login.password
            )
            if answer.status:
                raise await self._complaint(asked, answer, source, stored)
        return f"'{asked_host}' answers and accepts the password of '{login.username}'."

    def auth_file(self, source: Source, stored: Sequence[StoredRegistry]) -> str:
        """Return the text for Apptainer's option ``--authfile`` (``build`` and ``pull``), empty if
        no password is kept. Apptainer 1.4.5 sends none of it to a mirror unless it is named there
        by the mirror's own host, so it is.

        A job gets it as a file, with `hand_over`; there, `pull_files.environment_of` gives the
        variables for Apptainer. Raises InvalidRequest, ConfigurationError.
        """
        logins = self._logins([source.host], stored)
        return pull_files.auth_text(logins) if logins else ""

    def registries_conf(self, source: Source, stored: Sequence[StoredRegistry]) -> str:
        """Return the text of registries.conf for a job that pulls ``source``; empty if none is
        needed. Apptainer reads it from ``~/.config/containers/`` only."""
        return pull_files.registries_text(_registries([source.host], stored))

    async def hand_over(
        self, source: Source, stored: Sequence[StoredRegistry], directory: str
    ) -> PullFiles:
        """Write both texts, and certificate authorities, below ``directory`` (of images) for a
        job; `take_back` removes them when the job has ended. Raises PortalError.

        The job of a definition file gets what is kept of the registries that the file names.
        """
        hosts = await asyncio.to_thread(_hosts, source)
        logins = await asyncio.to_thread(self._logins, hosts, stored)
        return await asyncio.to_thread(
            pull_files.hand_over, Path(directory), logins, _registries(hosts, stored)
        )

    async def take_back(self, files: PullFiles) -> None:
        """Remove what `hand_over` wrote; missing files are no error."""
        await asyncio.to_thread(pull_files.take_back, files)

    @contextlib.asynccontextmanager
    async def _asking(self, host: str, stored: Sequence[StoredRegistry]) -> AsyncIterator[Skopeo]:
        registries, entry = _registries([host], stored), _of(host, stored)
        async with (
            self._turns,
            skopeo(
                self.skopeo,
                lambda: self._logins([host], stored),
                registries,
                {host, entry.registry.mirror} if entry and entry.registry.mirror else {host},
                self.internal_hosts,
            ) as asked,
        ):
            yield asked

    def _logins(self, hosts: Collection[str], stored: Sequence[StoredRegistry]) -> dict[str, Login]:
        """Return the logins for ``hosts`` and their mirrors. A mirror that is kept as a registry
        itself has its own, others get the registry's. Blocks."""
        logins = {}
        for entry in stored:
            if entry.registry.host not in hosts:
                continue
            if login := self.secrets.login(entry):
                logins[entry.registry.host] = login
            mirror = entry.registry.mirror
            if not mirror:
                continue
            own = _of(mirror, stored)
            if own is None:
                mirror_login = login
            else:
                # Else calling a host a mirror of another would expose its password.
                mirror_login = (
                    self.secrets.login(own) if _guarded(entry.registry, own.registry) else None
                )
            if mirror_login:
                logins[mirror] = mirror_login
        return logins

    async def _manifest(
        self, asked: Skopeo, source: Source, stored: Sequence[StoredRegistry]
    ) -> Manifest:
        answer = await self._ask(asked, source, stored, "inspect", "--raw")
        manifest = Manifest(answer.stdout, str(source))
        if source.digest and manifest.digest != source.digest:
            raise InvalidRequest(
                f"The registry sent a different image than {source}. It may have been changed "
                "in transit.",
                "source",
            )
        return manifest

    async def _ask(
        self, asked: Skopeo, source: Source, stored: Sequence[StoredRegistry], *args: str
    ) -> Answer:
        answer = await asked.ask(*args, str(source), seconds=self.timeout)
        if answer.status or answer.long:
            raise await self._complaint(asked, answer, source, stored)
        return answer

    async def _complaint(
        self, asked: Skopeo, answer: Answer, source: Source, stored: Sequence[StoredRegistry]
    ) -> PortalError:
        """Return the error in words; ask the registry for its tags if one is unknown."""
        entry = _of(source.host, stored)
        mirror = entry.registry.mirror if entry else ""
        name = f"'{mirror}', the mirror of '{source.host}'," if mirror else f"'{source.host}'"
        if answer.refused:
            return InvalidRequest(
                f"The registry {name} redirects to another host: {answer.refused} An admin can "
                "allow it: c.Registries.internal_hosts.",
                "source",
            )
        if answer.late:
            # skopeo waits and tries again, for longer than a person, when it is told to slow down.
            return RegistryUnavailable(
                f"The registry {name} sent no image within {self.timeout:g} s: it does not "
                "answer, or it limits the request rate. Try again later."
            )
        if answer.long:
            return InvalidRequest(
                f"The registry's answer about {source} is too large ({name}).", "source"
            )
        fault, message = fault_of(answer.stderr)
        if fault is Fault.TAG:
            return await self._unknown_tag(asked, source, name, entry)
        if fault in (Fault.PASSWORD, Fault.DENIED):
            return _refused(source, name, entry)
        return _other(fault, message, source, name)

    async def _unknown_tag(
        self, asked: Skopeo, source: Source, name: str, entry: StoredRegistry | None
    ) -> PortalError:
        # skopeo lists the tags of the registry that it is told, never those of its mirror.
        row = entry.registry if entry else None
        host = row.mirror if row and row.mirror else source.host
        repository = f"docker://{host}/{source.repository}"
        options = ["--tls-verify=false"] if row and row.insecure else []
        if source.digest:
            return InvalidRequest(f"The registry {name} has no image {source}.", "source")
        message = f"The registry {name} has no tag '{source.tag}' of {source.repository}"
        answer = await asked.ask("list-tags", *options, repository, seconds=self.timeout)
        near = _near(source.tag, _tags(answer.stdout) if not answer.status else [])
        if not near:
            return InvalidRequest(f"{message}.", "source")
        return InvalidRequest(f"{message}. Similar tags: {', '.join(near)}.", "source")


def _of(host: str, stored: Sequence[StoredRegistry]) -> StoredRegistry | None:
    return next((entry for entry in stored if entry.registry.host == host), None)


def _registries(hosts: Collection[str], stored: Sequence[StoredRegistry]) -> list[Registry]:
    """Return the registries of ``hosts`` and, if they are kept too, their mirrors."""
    names = {*hosts, *(entry.registry.mirror for entry in stored if entry.registry.host in hosts)}
    return [entry.registry for entry in stored if entry.registry.host in names]


def _guarded(asked: Registry, own: Registry) -> bool:
    """Return True if a mirror is reached as safely as by itself, with its own row."""
    return asked.insecure <= own.insecure and asked.ca_file in ("", own.ca_file)


def _hosts(source: Source) -> frozenset[str]:
    """Return the registries that ``source`` is built from; reads a file. Raises InvalidRequest."""
    if source.kind is SourceKind.OCI:
        return frozenset({source.host})
    if source.kind is SourceKind.SIF:
        return frozenset()
    try:
        return base_hosts(read_definition(Path(source.path)))
    except WorkFailed as error:
        raise InvalidRequest(error.message, "source") from None


def _tags(data: bytes) -> list[str]:
    try:
        tags = json.loads(data)["Tags"]
    except (ValueError, KeyError, TypeError):
        return []
    return [tag for tag in tags if isinstance(tag, str)][:20_000] if isinstance(tags, list) else []


def _near(tag: str, tags: list[str]) -> list[str]:
    """Return at most five tags that look like ``tag``; else the last ones by their numbers."""
    near = difflib.get_close_matches(tag, tags[:2000], 5, 0.5)
    if near:
        return near
    return sorted(tags, key=lambda name: [int(n) for n in re.findall(r"\d{1,9}", name)])[-5:]


def _refused(source: Source, name: str, entry: StoredRegistry | None) -> InvalidRequest:
    if entry is None or not entry.registry.has_password:
        return InvalidRequest(
            f"The registry {name} requires a password for {source.repository}, or has no such "
            "repository. Check the name, or store a password on the Registries page.",
            "source",
        )
    return InvalidRequest(
        f"The registry {name} does not accept the password of '{entry.registry.username}' for "
        f"{source.repository}. Enter it again on the Registries page, or choose another image.",
        "source",
    )


def _other(fault: Fault, detail: str, source: Source, name: str) -> PortalError:
    messages: Mapping[Fault, str] = {
        Fault.REPOSITORY: f"The registry {name} has no repository '{source.repository}'.",
        Fault.CERTIFICATE: (
            f"The certificate of the registry {name} is not trusted ({detail}). Set its "
            "certificate authority ('ca_file') on the Registries page."
        ),
        Fault.PLAIN_HTTP: (
            f"The registry {name} uses plain HTTP. To allow this, mark it as insecure on the "
            "Registries page."
        ),
    }
    if fault in messages:
        return InvalidRequest(messages[fault], "source")
    if fault is Fault.BUSY:
        return RegistryUnavailable(
            f"The registry {name} limits the request rate. Try again later, or store a user "
            "and password, which may raise the limit."
        )
    if fault is Fault.AWAY:
        return RegistryUnavailable(f"The registry {name} cannot be reached ({detail}).")
    return InvalidRequest(f"The registry {name} sent no image for {source}: {detail}", "source")
