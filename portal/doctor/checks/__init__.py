"""Every check, in the order in which they are told."""

from __future__ import annotations

from ..finding import Check
from . import (
    access,
    apptainer,
    database,
    directory,
    environments,
    hub,
    images,
    notices,
    origins,
    proxy,
    slurm,
    storage,
    sudo,
)

ALL: tuple[Check, ...] = (
    hub.configuration,
    hub.account,
    hub.packages,
    hub.spawner,
    hub.service,
    access.public_address,
    access.hub_address,
    access.secrets,
    origins.origins,
    proxy.proxy,
    database.database,
    directory.servers,
    directory.refresh,
    slurm.answers,
    slurm.accounting,
    slurm.rights,
    slurm.gpus,
    sudo.rule,
    sudo.narrow,
    apptainer.command,
    apptainer.kernel,
    apptainer.commands,
    storage.homes,
    storage.logs,
    environments.files,
    environments.sources,
    images.folder,
    images.account,
    images.programs,
    images.wheel,
    notices.mail_server,
)
