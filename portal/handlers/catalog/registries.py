"""``api/v1/registries``: where images come from, and what one logs in there with.

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
from portal.models.catalog.catalog import KeptRegistry, Registry, RegistryDraft
from portal.models.catalog.image import SourceKind, parse_source
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action, Done
from ..base.endpoint import Endpoint, Operation
from ..base.paging import Page, PageQuery, offset_of, page

HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[0-9]{1,5})?"
MOST = 200  # registries


class RegistryBody(RegistryDraft):
    """A registry as it is to be. ``host`` is that of the address. A password that is left out
    stays as it is; an empty one is forgotten."""

    host: Annotated[str, StringConstraints(pattern=rf"^({HOST})?$")] = ""


class Check(Frozen):
    """What to ask for; nothing: only whether the registry takes the password."""

    source: Annotated[
        str,
        StringConstraints(max_length=1024, strip_whitespace=True),
        Field(description="An image of this registry, as docker://HOST/REPOSITORY:TAG."),
    ] = ""


class RegistryList(Endpoint):
    """All of them."""

    path = "registries"

    @Operation(
        "The registries that images are pulled from.", query=PageQuery, scope=ENVIRONMENTS_MANAGE
    )
    async def on_get(self) -> Page[Registry]:
        """By host. Their passwords are not told."""
        kept = [one.registry for one in await self.parts.store.registries.all()]
        offset = offset_of(self.query.after)
        return page(kept[offset : offset + self.query.limit], self.query, len(kept))


class OneRegistry(Action):
    """One of them."""

    path = "registries/{registry}"
    parameters = {"registry": HOST}

    @Operation(
        "Keep a registry, new or changed.",
        body=RegistryBody,
        scope=ENVIRONMENTS_MANAGE,
        errors=(409,),
    )
    async def on_put(self, registry: str) -> Registry:
        """Its password is encrypted before it is kept. Where the password that is kept would be
        sent somewhere else from now on, it has to be entered again."""
        draft, host = self.body, registry.lower()
        async with self.audited("set-registry", f"registry {host}") as line:
            if draft.host.lower() not in ("", host):
                raise InvalidRequest(
                    f"'host' is '{draft.host}', the address says '{host}'.", "host"
                )
            everything = await self.parts.store.registries.all()
            old = next((one for one in everything if one.registry.host == host), None)
            if old is None and len(everything) >= MOST:
                raise Conflict(f"There are {MOST} registries already; remove one before.")
            await asyncio.to_thread(_check_files, draft, self.parts.registries.secrets)
            secret = await self._secret(draft, host, old)
            made = Registry(
                **draft.model_dump(exclude={"host", "password"}),
                host=host,
                has_password=bool(secret or draft.password_file),
                author=self.person.name,
                at=time.time(),
            )
            if made.has_password and not made.username:
                raise InvalidRequest(
                    "A password needs a user name; NGC's is the word $oauthtoken.", "username"
                )
            line.detail = _told(made, changed=draft.password is not None)
            await self.parts.store.registries.set(made, secret)
        return made

    @Operation("Forget a registry.", scope=ENVIRONMENTS_MANAGE)
    async def on_delete(self, registry: str) -> None:
        """Its password is forgotten; images that are there stay."""
        host = registry.lower()
        async with self.audited("remove-registry", f"registry {host}"):
            if not await self.parts.store.registries.remove(host):
                raise NotFound(f"No registry '{host}' is kept.")

    async def _secret(self, draft: RegistryBody, host: str, old: KeptRegistry | None) -> str:
        """What the database is to keep as the password. One that is kept, here or in a file, goes
        to the place that it was entered for, and to another one only from who knows it."""
        secrets = self.parts.registries.secrets
        if draft.password_file:
            if draft.password:
                await asyncio.to_thread(secrets.compare, draft.password, draft.password_file)
            elif _elsewhere(draft, old):
                raise InvalidRequest(
                    f"Enter the password that is in {draft.password_file} as well: it would be "
                    f"sent to '{draft.mirror or host}', or guarded in another way than before.",
                    "password",
                )
            return ""
        if draft.password is not None:
            return await asyncio.to_thread(secrets.encrypt, draft.password)
        if old is None or not old.secret:
            return ""
        if _elsewhere(draft, old):
            raise InvalidRequest(
                f"Enter the password of '{host}' again: it would be sent to another place, or "
                "guarded in another way, than when it was entered.",
                "password",
            )
        return old.secret


def _elsewhere(draft: RegistryBody, old: KeptRegistry | None) -> bool:
    """Whether a password that nobody enters would go to another place than before, or with less
    to guard it; the address in the path is the registry's and does not change."""
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
    """Whether a registry answers."""

    path = "registries/{registry}/check"
    parameters = {"registry": HOST}

    @Operation(
        "Ask a registry whether it takes the password, or for an image.",
        body=Check,
        scope=ENVIRONMENTS_MANAGE,
    )
    async def on_post(self, registry: str) -> Done:
        """The answer is a sentence; so is each error. Nothing is pulled."""
        host, text = registry.lower(), self.body.source
        async with self.audited("check-registry", f"registry {host}", detail=text):
            kept = await self.parts.store.registries.all()
            if not text:
                return Done(message=await self.parts.registries.check(host, kept))
            try:
                source = parse_source(text)
            except ValueError as error:
                raise InvalidRequest(f"{error}.", "source") from None
            if source.kind is not SourceKind.OCI or source.host != host:
                raise InvalidRequest(f"{source} is not an image of '{host}'.", "source")
            found = await self.parts.registries.resolve(source, kept)
            return Done(
                message=f"{source} is {found.digest}, for {found.architecture}, "
                f"{found.size / 1e6:.1f} MB to pull."
            )


def _check_files(draft: RegistryBody, secrets: Secrets) -> None:
    """Raises InvalidRequest where a file that is named cannot be used. Blocking."""
    if draft.password_file:
        secrets.read(draft.password_file)
    if draft.ca_file:
        try:
            authorities_in(draft.ca_file)
        except OSError:
            raise InvalidRequest(
                f"The service can read no certificate (PEM) in {draft.ca_file}.", "ca_file"
            ) from None


def _told(registry: Registry, *, changed: bool) -> str:
    """What the audit log says of it."""
    parts = [f"user {registry.username}" if registry.username else ""]
    if registry.password_file:
        parts.append(f"password in {registry.password_file}")
    elif changed:
        parts.append("password set" if registry.has_password else "password removed")
    parts.append(f"mirror {registry.mirror}" if registry.mirror else "")
    parts.append("insecure" if registry.insecure else "")
    parts.append(f"authority {registry.ca_file}" if registry.ca_file else "")
    return ", ".join(filter(None, parts))


ENDPOINTS = (RegistryList, OneRegistry, RegistryCheck)
