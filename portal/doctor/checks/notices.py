"""Check of the mail server, if the site sends mail: whether it accepts the portal's login."""

from __future__ import annotations

import stat
from pathlib import Path

from portal.errors import ConfigurationError, PortalError
from portal.notices import Notices

from ..finding import Result, check, failure, ok, worst
from ..site import Site

_HELP = "docs/how-to/notices.md"


@check("notices", "The mail server accepts the portal's mail")
async def mail_server(site: Site) -> Result:
    # The Hub passes it to the service, but not to this command.
    public = site.config.JupyterHub.get("public_url", "")
    known = (
        {"public_url": str(public)} if public and "public_url" not in site.config.Notices else {}
    )
    try:
        notices = Notices(config=site.config, log=site.log, **known)
    except ConfigurationError as error:
        return failure(str(error), f"See {_HELP}.")
    if not notices.on:
        return ok("c.Notices.smtp_host is not set: no mail is sent")
    try:
        await notices.server.check()
    except PortalError as error:
        return failure(str(error), f"See {_HELP}.")
    results = [ok(f"{notices.smtp_host} answers ({notices.encryption})")]
    return worst([*results, *_password(notices.password_file)])


def _password(name: str) -> list[Result]:
    """Return what is wrong with the password's file, which could be read."""
    if not name or not (mode := stat.S_IMODE(Path(name).stat().st_mode)) & 0o077:
        return []
    return [failure(f"{name} has mode {mode:04o}: others can read it", f"chmod 0600 {name}")]
