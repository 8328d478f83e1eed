"""All checks, in the order in which they are reported."""

from __future__ import annotations

import portal.work  # noqa: F401  adds the features
from portal.features import loaded

from ..finding import Check
from . import (
    access,
    advisories,
    apptainer,
    commands,
    database,
    directory,
    disk,
    environments,
    foreign_code,
    hub,
    images,
    notices,
    origins,
    project_folders,
    proxy,
    settings,
    slurm,
    storage,
    sudo,
)

_OWN: tuple[Check, ...] = (
    hub.configuration,
    settings.settings,
    hub.account,
    hub.packages,
    advisories.advisories,
    foreign_code.foreign_code,
    hub.spawner,
    hub.service,
    access.public_address,
    access.hub_address,
    access.secrets,
    origins.origins,
    proxy.proxy,
    database.database,
    disk.disk,
    directory.servers,
    directory.refresh,
    directory.service_names,
    slurm.answers,
    slurm.accounting,
    slurm.rights,
    slurm.gpus,
    advisories.metrics,
    sudo.rule,
    sudo.narrow,
    apptainer.command,
    apptainer.kernel,
    commands.commands,
    storage.homes,
    storage.logs,
    project_folders.project_folders,
    environments.files,
    environments.sources,
    environments.programs,
    images.folder,
    images.account,
    images.programs,
    images.keys,
    images.wheel,
    notices.mail_server,
)


def all_checks() -> tuple[Check, ...]:
    """Return the checks, with those of the features that are added by now."""
    return (*_OWN, *(check for checks in loaded("checks") for check in checks))
