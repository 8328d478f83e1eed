"""``portal database``: commands by which an admin inspects or manages the database by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from traitlets import Unicode

import portal.work  # noqa: F401  a new database gets the tables of each
from portal.command import CommandGroup, SiteCommand, subcommands_of
from portal.errors import ConfigurationError, StoreUnavailable
from portal.setting import setting

from . import HEAD, Store
from .engine.address import Address


class DatabaseCommand(SiteCommand):
    """Base class of subcommands that access the database."""

    classes = [Store]
    aliases = {**SiteCommand.aliases, "url": "Store.url"}

    def run(self) -> bool:
        """Run the subcommand with the site's database, and close that."""
        return asyncio.run(self._with_store())

    async def act(self, store: Store) -> bool:
        """Run the subcommand on ``store``; return True if all is well."""
        raise NotImplementedError

    async def _with_store(self) -> bool:
        store = Store(parent=self)
        store.log.setLevel("CRITICAL")  # what it would write there is printed here
        try:
            return await self.act(store)
        except StoreUnavailable as error:
            detail = f"\n{store.detail}" if store.detail else ""
            raise StoreUnavailable(error.message + detail) from None
        finally:
            await store.close()


class StatusCommand(DatabaseCommand):
    """Subcommand that says where the database is, and whether its schema is this version's.
    Changes nothing."""

    name = "portal-database-status"
    description = "Show the location of the database and its schema version; changes nothing."

    async def act(self, store: Store) -> bool:
        print(store.place)
        _demand_file(store)
        revision = await store.revision()
        if revision == HEAD:
            print(f"Its schema is this version's ({HEAD}).")
        elif revision is None:
            print("It has no tables yet: the Hub creates them, or `portal database upgrade`.")
        else:
            print(
                f"Its schema is {revision}, this version's is {HEAD}. "
                "Run `portal database upgrade`."
            )
        return revision == HEAD


class UpgradeCommand(DatabaseCommand):
    """Subcommand that upgrades the schema to this version, as the Hub does at its start."""

    name = "portal-database-upgrade"
    description = "Bring the database's schema to this version, as the Hub does when it starts."

    async def act(self, store: Store) -> bool:
        print(store.place)
        path = store.database.address.path
        if path is not None and not Path(store.url.partition(":///")[2]).is_absolute():
            _demand_file(store)  # in a wrong folder, a new one would be made and never used
        await store.upgrade()
        print(f"Its schema is this version's ({HEAD}).")
        return True


class CopyCommand(DatabaseCommand):
    """Subcommand that copies everything from another database into the configured one."""

    name = "portal-database-copy"
    description = (
        "Copy all data from another database into the configured one, which must be "
        "empty. Stop the Hub first."
    )
    examples = "portal database copy --source=sqlite:////var/lib/portal/portal.sqlite"
    aliases = {**DatabaseCommand.aliases, "source": "CopyCommand.source"}

    source = setting(
        Unicode(""),
        "Database to copy from, in the format of ``c.Store.url``.",
        "portal database copy --source=sqlite:////var/lib/data-scientist-portal/portal.sqlite",
    )

    async def act(self, store: Store) -> bool:
        if not self.source:
            raise ConfigurationError(
                "Name the database to copy from: --source=sqlite:////…/portal.sqlite"
            )
        source = Address.read(self.source)
        if source.missing:
            raise StoreUnavailable(f"There is no file {source.path}.")
        print(f"{source.place} → {store.place}")
        rows = await store.copy_from(source)
        print(f"Copied {rows} rows.")
        return True


class DatabaseApp(CommandGroup):
    """``portal database SUBCOMMAND``."""

    name = "portal-database"
    description = "The portal's database."
    subcommands = subcommands_of(
        {"status": StatusCommand, "copy": CopyCommand, "upgrade": UpgradeCommand}
    )


def _demand_file(store: Store) -> None:
    address = store.database.address
    if address.missing:
        raise StoreUnavailable(
            f"There is no file {address.path} yet: the Hub creates it when it starts. A relative "
            "c.Store.url is relative to the Hub's working directory; run this command there."
        )
