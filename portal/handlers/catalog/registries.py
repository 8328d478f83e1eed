"""``api/v1/registries``: registries that images come from, and their credentials.

A password goes in and never comes out: not here, not in the audit log, not in the service's log.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.errors import Conflict, InvalidRequest, NotFound
from portal.images.registry.credentials import Secrets
from portal.images.registry.pull_files import authorities_in
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import Registry, RegistryDraft, StoredRegistry
from portal.models.catalog.image import SourceKind, parse_source

from ..base.action import Action, Confirmation
from ..base.endpoint import Endpoint
from ..base.paging import Page, PageQuery, page_of
from .editing import CuratorOperation

HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[0-9]{1,5})?"
MOST = 200  # registries


class RegistryBody(RegistryDraft):
    """Registry to keep. ``host`` is that of the address.

    A password that is left out stays as it is; an empty one is deleted.
    """

    host: Annotated[str, StringConstraints(pattern=rf"^({HOST})?$")] = ""


class Check(Frozen):
    """Image to ask for; none: check only whether the registry takes the password."""

    source: Annotated[
        str,
        StringConstraints(max_length=1024, strip_whitespace=True),
        Field(description="An image of this registry, as docker://HOST/REPOSITORY:TAG."),
    ] = ""


class RegistryList(Endpoint):
    """List of the registries."""

    path = "registries"

    @CuratorOperation("Registries that images are pulled from.", query=PageQuery)
    async def on_get(self) -> Page[Registry]:
        """Return them by host, without their passwords."""
        registries = [row.registry for row in await self.parts.store.registries.all()]
        return page_of(registries, self.query)


class OneRegistry(Action):
    """Registry by its host."""

    path = "registries/{registry}"
    parameters = {"registry": HOST}

    @CuratorOperation("Add or change a registry.", body=RegistryBody, errors=(409,))
    async def on_put(self, registry: str) -> Registry:
        """Encrypt the password before it is stored.

        If the stored password would be sent somewhere else from now on, it has to be entered
        again.
        """
        draft, host = self.body, registry.lower()
        async with self.audited(AuditAction.SET_REGISTRY, f"registry {host}") as line:
            if draft.host.lower() not in ("", host):
                raise InvalidRequest(f"'host' is '{draft.host}', but the URL has '{host}'.", "host")
            rows = await self.parts.store.registries.all()
            old = next((row for row in rows if row.registry.host == host), None)
            if old is None and len(rows) >= MOST:
                raise Conflict(f"There are already {MOST} registries. Remove one first.")
            await asyncio.to_thread(_check_files, draft, self.parts.registries.secrets)
            secret = await self._secret(draft, host, old)
            new_registry = Registry(
                **draft.model_dump(exclude={"host", "password"}),
                host=host,
                has_password=bool(secret or draft.password_file),
                author=self.person.name,
                at=time.time(),
            )
            if new_registry.has_password and not new_registry.username:
                raise InvalidRequest(
                    "A password needs a user name; for NGC it is $oauthtoken.", "username"
                )
            line.detail = _detail(new_registry, changed=draft.password is not None)
            await self.parts.store.registries.set(new_registry, secret)
        return new_registry

    @CuratorOperation("Remove a registry.")
    async def on_delete(self, registry: str) -> None:
        """Delete its password, too; images that are there stay."""
        host = registry.lower()
        async with self.audited(AuditAction.REMOVE_REGISTRY, f"registry {host}"):
            if not await self.parts.store.registries.remove(host):
                raise NotFound(f"There is no registry '{host}'.")

    async def _secret(self, draft: RegistryBody, host: str, old: StoredRegistry | None) -> str:
        """Return the password for the database to keep.

        A password kept here or in a file goes to the place that it was entered for; to send it
        elsewhere, it must be entered again.
        """
        secrets = self.parts.registries.secrets
        if draft.password_file:
            if draft.password:
                await asyncio.to_thread(secrets.compare, draft.password, draft.password_file)
            elif _elsewhere(draft, old):
                raise InvalidRequest(
                    f"Enter the password from {draft.password_file} as well: it would be sent to "
                    f"'{draft.mirror or host}', or with different TLS settings than before.",
                    "password",
                )
            return ""
        if draft.password is not None:
            return await asyncio.to_thread(secrets.encrypt, draft.password)
        if old is None or not old.secret:
            return ""
        if _elsewhere(draft, old):
            raise InvalidRequest(
                f"Enter the password of '{host}' again: it would now be sent to another host or "
                "with different TLS settings.",
                "password",
            )
        return old.secret


def _elsewhere(draft: RegistryBody, old: StoredRegistry | None) -> bool:
    """Return True if a password not entered again would go elsewhere, or with less to guard it.

    The address in the path is the registry's and does not change.
    """
    if old is None:
        return True
    was = old.registry
    return (
        draft.password_file != was.password_file
        or draft.mirror not in ("", was.mirror)
        or draft.insecure > was.insecure
        or draft.ca_file != was.ca_file
    )


class RegistryCheck(Action):
    """Check of a registry."""

    path = "registries/{registry}/check"
    parameters = {"registry": HOST}

    @CuratorOperation("Check the credentials of a registry, or look up an image in it.", body=Check)
    async def on_post(self, registry: str) -> Confirmation:
        """Return the result as a sentence, like each error. Nothing is pulled."""
        host, text = registry.lower(), self.body.source
        async with self.audited(AuditAction.CHECK_REGISTRY, f"registry {host}", detail=text):
            registries = await self.parts.store.registries.all()
            if not text:
                return Confirmation(message=await self.parts.registries.check(host, registries))
            try:
                source = parse_source(text)
            except ValueError as error:
                raise InvalidRequest(f"{error}.", "source") from None
            if source.kind is not SourceKind.OCI or source.host != host:
                raise InvalidRequest(f"{source} is not an image of '{host}'.", "source")
            image = await self.parts.registries.resolve(source, registries)
            return Confirmation(
                message=f"{source} is {image.digest}, for {image.architecture}, "
                f"{image.size / 1e6:.1f} MB to pull."
            )


def _check_files(draft: RegistryBody, secrets: Secrets) -> None:
    """Raise InvalidRequest if a file that is named cannot be used. Blocking."""
    if draft.password_file:
        secrets.read(draft.password_file)
    if draft.ca_file:
        try:
            authorities_in(draft.ca_file)
        except OSError:
            raise InvalidRequest(
                f"The service cannot read a certificate (PEM) in {draft.ca_file}.", "ca_file"
            ) from None


def _detail(registry: Registry, *, changed: bool) -> str:
    """Return the detail for the audit log."""
    parts = [f"user {registry.username}" if registry.username else ""]
    if registry.password_file:
        parts.append(f"password in {registry.password_file}")
    elif changed:
        parts.append("password set" if registry.has_password else "password removed")
    parts.append(f"mirror {registry.mirror}" if registry.mirror else "")
    parts.append("insecure" if registry.insecure else "")
    parts.append(f"CA file {registry.ca_file}" if registry.ca_file else "")
    return ", ".join(filter(None, parts))


ENDPOINTS = (RegistryList, OneRegistry, RegistryCheck)
