"""Contents of a backup: databases and files, as the site's configuration names them.

Settings say themselves whether their files belong to a backup (``portal/setting.py``), and the
doctor knows how a site's configuration is read (``portal/doctor/site.py``).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from traitlets import HasTraits

from portal.app.service import PortalService
from portal.doctor.checks.access import config_files
from portal.doctor.site import Site
from portal.errors import ConfigurationError
from portal.gateway.keys import CERTIFICATE, IDENTITY
from portal.paths import data_path
from portal.store import Store
from portal.store.engine.address import Address
from portal.work.endpoint.catalog.files import beside
from portal.work.endpoint.parts import STATE

from .account import owner_of
from .databases import SiteDatabase, hub_address
from .manifest import LeftOut, Role
from .stopped import running_hub

MOST = 16 << 20  # bytes of a file: larger ones are data, not settings
_HUB_SECRETS = ("cookie_secret_file", "ssl_key", "internal_certs_location")
_HUB_FILES = ("ssl_cert",)


@dataclass
class Inventory:
    """Databases and files of a site; ``secrets`` are among the ``files``. ``left_out``: files that
    were found and cannot be kept. ``directory``: in which its Hub works, if that runs."""

    account: str
    databases: list[SiteDatabase]
    files: list[Path] = field(default_factory=list)
    secrets: set[Path] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    directory: Path | None = None

    def take(self, places: Iterable[Path], *, secret: bool) -> None:
        """Take the files at ``places``, which are files or folders, or missing."""
        for place in places:
            for path in _below(place):
                try:
                    problem = _problem(path)
                except OSError as error:
                    problem = f"{error.strerror}"
                if problem:
                    name = os.fsencode(path).decode(errors="replace")
                    self.left_out.append(LeftOut(path=name, why=problem))
                    continue
                if path not in self.files:
                    self.files.append(path)
                if secret:
                    self.secrets.add(path)


def enter_hub_directory(site: Site) -> Path | None:
    """Make the working directory of the running Hub this command's, and return it: relative
    settings count from there. Without a running Hub, or a way to it, this command's own counts.
    Raises Conflict."""
    if process := running_hub(site.config_file):
        with contextlib.suppress(OSError):
            os.chdir((process / "cwd").resolve())
            return Path.cwd()
    return None


def inventory_of(site: Site) -> Inventory:
    """Return what the site keeps, and where. Raises ConfigurationError."""
    if site.trouble:
        raise ConfigurationError(f"{site.trouble.rstrip('.')}. No backup was made.")
    account = _hub_account(site)
    found = Inventory(account, _databases(site, account))
    for path in config_files(site):
        if not path.resolve().is_relative_to(data_path("deploy")):  # those come with the portal
            # Passwords may stand in a file that others cannot read.
            found.take([path], secret=not path.stat().st_mode & stat.S_IROTH)
    found.take(sorted(site.config_file.parent.glob("*.env")), secret=True)
    for names, secret in ((_HUB_SECRETS, True), (_HUB_FILES, False)):
        values = [site.of_hub(name) for name in names]
        found.take([Path(value).absolute() for value in values if value], secret=secret)
    for place, secret in _of_settings(site):
        found.take([place], secret=secret)
    found.take([Path(beside(site.catalog.directory))], secret=False)
    if state := os.environ.get(STATE):
        found.take([Path(state, name) for name in (IDENTITY, CERTIFICATE)], secret=True)
    return found


def _databases(site: Site, account: str) -> list[SiteDatabase]:
    store = Store(config=site.config, log=site.log)
    addresses: list[tuple[Role, Address]] = [
        ("hub", hub_address(site.of_hub("db_url"))),
        ("portal", store.database.address),
    ]
    merged: dict[object, tuple[Address, list[Role]]] = {}
    for role, address in addresses:
        url = address.url
        key = address.path or (url.host, url.port, url.database, url.query.get("host"))
        merged.setdefault(key, (address, []))[1].append(role)
    return [SiteDatabase(address, tuple(roles), account) for address, roles in merged.values()]


def settings_of(kinds: Iterable[type[HasTraits]]) -> Iterator[tuple[type[HasTraits], str, str]]:
    """Yield class, name and tag of each setting that names files."""
    for kind in kinds:
        for name, trait in kind.class_traits(config=True).items():
            if trait.metadata.get("backup"):
                yield kind, name, trait.metadata["backup"]


def _of_settings(site: Site) -> Iterator[tuple[Path, bool]]:
    kinds = [*PortalService.classes, site.spawner, site.authenticator]
    for kind, name, tag in settings_of(dict.fromkeys(kinds)):
        if value := site.setting(kind, name):
            yield Path(value).absolute(), tag == "secret"


def _hub_account(site: Site) -> str:
    """Return the account that the Hub runs as: root's backup has the one of the Hub's secret."""
    uid = os.geteuid()
    if uid == 0:
        for name in (site.of_hub("cookie_secret_file"), site.of_hub("db_url").partition(":///")[2]):
            with contextlib.suppress(OSError):
                return owner_of(Path(name).stat())[0]
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _below(place: Path) -> Iterator[Path]:
    """Yield the place itself if it is no folder; else its files, without hidden folders (.git)."""
    try:
        if not place.is_dir():
            if place.exists() or place.is_symlink():
                yield place
            return
        entries = sorted(place.iterdir())
    except OSError:  # this account may not look
        yield place
        return
    for path in entries:
        if path.is_dir():
            if not path.is_symlink() and not path.name.startswith("."):
                yield from _below(path)
        else:
            yield path


def _problem(path: Path) -> str:
    """Return why a file cannot be kept; "" if it can. Raises OSError."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return "the folder cannot be read"
    if not stat.S_ISREG(status.st_mode):
        return "it is no file"
    if status.st_size > MOST:
        return f"it is larger than {MOST >> 20} MiB: keep it with the site's other files"
    with path.open("rb"):
        return ""
