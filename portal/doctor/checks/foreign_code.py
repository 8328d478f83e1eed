"""Check of JupyterHub and other packages: whether what the portal patches there is unchanged."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from importlib import metadata

from portal.session_packages import constraints

from ..finding import Result, check, ok, warning, worst
from ..foreign_code import changed_parts, known_parts
from ..site import Site


@check("foreign-code", "JupyterHub and other packages have the code that the portal changes")
async def foreign_code(site: Site) -> Result:
    changes = defaultdict(list)
    for part, why in await asyncio.to_thread(lambda: list(changed_parts())):
        changes[part.package].append(f"{part.name}: {why} ({', '.join(part.files)})")
    if not changes:
        return ok(f"{len(known_parts())} functions and attributes are as tested")
    return worst([_changed(package, reasons) for package, reasons in changes.items()])


def _changed(package: str, reasons: list[str]) -> Result:
    tested = _tested(package)
    return warning(
        f"{package} is {metadata.version(package)}"
        + (f", tested is {tested}: " if tested else ": ")
        + "; ".join(reasons),
        "The named files of the portal may not work as intended. Install the tested versions (pip "
        "install -c deploy/constraints.txt data-scientist-portal), or a portal that was tested "
        "with yours; or compare the code, and read in a patch's file (`until`) if it is still "
        "needed.",
    )


def _tested(package: str) -> str:
    """Return the version that the portal is tested with; "" if it is not known."""
    path = constraints()
    name = re.escape(package).replace("_", "[-_]")
    found = re.search(rf"(?im)^{name}==(\S+)", path.read_text() if path else "")
    return found[1] if found else ""
