"""``portal images``: list images, remove unused ones, copy them to the nodes' disks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from traitlets import Bool, Float, List, Unicode

from portal.command import CommandGroup, flag, subcommands_of
from portal.errors import NotFound
from portal.images.settings import Images
from portal.models.catalog.image_job import WorkState
from portal.setting import setting
from portal.slurm import Cluster, SlurmRunner
from portal.store import Store
from portal.store.command import DatabaseCommand

from ..builds.image_files import ImageFile, ImageFiles
from ..builds.node_copies import NodeCopies
from ..files import EnvironmentCatalog


class ImagesCommand(DatabaseCommand):
    """Base of the subcommands, which need the database: it knows who needs an image."""

    classes = [Images, Store, EnvironmentCatalog]
    aliases = {**DatabaseCommand.aliases, "directory": "Images.directory"}

    async def images(self, store: Store) -> tuple[ImageFiles, list[ImageFile]]:
        """Return the site's images. Raises PortalError."""
        catalog = EnvironmentCatalog(parent=self)
        folders = (catalog.directory, catalog.kept_directory)
        files = ImageFiles(Images(parent=self).directory, filter(None, folders), store)
        return files, await files.all()


class ListCommand(ImagesCommand):
    """Command that lists every image, its size, and who needs it."""

    name = "portal-images-list"
    description = "List the images that the portal has built, and what uses each."
    flags = {"json": flag("ListCommand.json", "Print JSON.")}

    json = setting(Bool(False), "Print JSON.", "portal images list --json")

    async def act(self, store: Store) -> bool:
        _, images = await self.images(store)
        if self.json:
            print(json.dumps([_as_json(image) for image in images], indent=1))
            return True
        for image in images:
            print(
                f"{image.path.name}  {_size(image.size)}  {'; '.join(image.needed_by) or 'unused'}"
            )
        total = sum(image.size for image in images)
        print(f"{len(images)} images, {_size(total)}")
        return True


class PruneCommand(ImagesCommand):
    """Command that removes unused images."""

    name = "portal-images-prune"
    description = (
        "Remove images that no session, build or catalog file needs, and no version that is or may "
        "be published. Run it as the builds' or the service's account."
    )
    aliases = {**ImagesCommand.aliases, "older-than": "PruneCommand.older_than"}
    flags = {
        "dry-run": flag("PruneCommand.dry_run", "Show what would be removed, and remove nothing.")
    }

    dry_run = setting(
        Bool(False),
        "Print what would be removed, and remove nothing.",
        "portal images prune --dry-run",
    )

    older_than = setting(
        Float(1.0, min=0),
        "Minimum age of an image in days; younger images are always kept.",
        "portal images prune --older-than=30",
    )

    async def act(self, store: Store) -> bool:
        files, images = await self.images(store)
        unused = [image for image in images if not image.needed_by]
        going = [image for image in unused if image.age >= self.older_than * 86400]
        for image in going:
            if not self.dry_run:
                await asyncio.to_thread(files.remove, image)
            done = "would remove" if self.dry_run else "removed"
            print(f"{done}  {image.path.name}  {_size(image.size)}")
        verb = "would be" if self.dry_run else "are"
        young = f"; {len(unused) - len(going)} unused images are too new" if unused != going else ""
        total = sum(image.size for image in going)
        print(f"{len(going)} of {len(images)} images {verb} removed, {_size(total)}{young}.")
        return True


class CacheCommand(ImagesCommand):
    """Command that unpacks an environment's image on the nodes' own disks."""

    name = "portal-images-cache"
    description = (
        "Unpack the image of the environment NAME into c.Images.node_cache on each node, with a "
        "job there, so that sessions start faster. Run it as the Hub's account."
    )
    classes = [*ImagesCommand.classes, Cluster, SlurmRunner]
    aliases = {**ImagesCommand.aliases, "node": "CacheCommand.nodes"}

    nodes = setting(
        List(Unicode()),
        "Nodes; empty: all nodes that take jobs.",
        "portal images cache --node=gpu01 --node=gpu02 pytorch",
    )

    async def act(self, store: Store) -> bool:
        name = self.argument("Name an environment", "NAME")
        catalog = EnvironmentCatalog(parent=self)
        await catalog.load()
        environment = catalog.environments.get(name)
        if environment is None:
            raise NotFound(f"{catalog.directory} has no environment '{name}'.")
        runner = SlurmRunner(parent=self)
        copies = NodeCopies(Cluster(parent=self, runner=runner), Images(parent=self), self.log)
        good = True
        try:
            async for node, end in copies.make(environment, self.nodes):
                good = good and end.state is WorkState.PASSED
                print(f"{node}: {end.state}. {end.message}".rstrip(), flush=True)
        finally:
            runner.close()
        return good


class ImagesApp(CommandGroup):
    """``portal images SUBCOMMAND``."""

    name = "portal-images"
    description = "Images that the portal has built."
    subcommands = subcommands_of(
        {"list": ListCommand, "prune": PruneCommand, "cache": CacheCommand}
    )


def _as_json(image: ImageFile) -> dict[str, Any]:
    return {
        "name": image.path.name,
        "size": image.size,
        "age": round(image.age),
        "needed_by": image.needed_by,
    }


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
