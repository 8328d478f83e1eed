"""Check of the names in the configuration: settings that have another name now, or that nobody
knows. traitlets tells of the second only in the log of the program that reads them, and of an
unknown class nowhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib import import_module

from traitlets import HasTraits
from traitlets.config import Configurable

from portal.former_settings import RENAMED_ADVICE

from ..finding import Result, check, ok, warning, worst
from ..site import Site

_PRODUCT = ("portal", "spawners")
# The programs that read the file, by name: the doctor does not know them otherwise.
_READERS = (("portal.app.service", "PortalService"), ("portal.directory.oidc", "OIDCAuthenticator"))
_ALIKE = 0.88  # of two names, one of which is the other misspelt (difflib)


@check("settings", "The settings have names that this version knows")
async def settings(site: Site) -> Result:
    results = [
        warning(f"{former} is called {present} now", RENAMED_ADVICE)
        for former, present in site.renamed
    ]
    for name, nearest in _unknown(site):
        mend = f"Do you mean {nearest}?" if nearest else "Remove it: it has no effect."
        results.append(
            warning(f"no setting is called {name}", f"{mend} docs/reference/settings.md")
        )
    return worst(results) if results else ok(f"{len(site.config)} classes have settings")


def _unknown(site: Site) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting of the portal's classes that is none, and the nearest one."""
    known = _classes(site)
    ours = [name for name, kind in known.items() if kind.__module__.split(".")[0] in _PRODUCT]
    for section in site.config:
        kind = known.get(section)
        if kind is None:
            if nearest := _nearest(section, ours, _ALIKE):
                yield f"c.{section}", f"c.{nearest}"
            continue
        if section not in ours:
            continue  # JupyterHub and others tell of theirs
        traits = _traits(kind)
        for name in sorted(set(site.config[section]) - traits):
            nearest = _nearest(name, sorted(traits), 0.6)
            yield f"c.{section}.{name}", f"c.{section}.{nearest}" if nearest else ""


def _traits(kind: type[HasTraits]) -> set[str]:
    """Return the settings of a class. A section of a base may name those of the classes that are
    made from it."""
    return {
        name
        for each in (kind, *_below(kind))
        for name, trait in each.class_traits().items()
        if trait.metadata.get("config")
    }


def _classes(site: Site) -> dict[str, type[HasTraits]]:
    for module, name in _READERS:
        getattr(import_module(module), name)
    site.spawner, site.authenticator  # noqa: B018  imports them
    return {kind.__name__: kind for kind in _below(Configurable)}


def _below(kind: type[HasTraits]) -> Iterator[type[HasTraits]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _nearest(name: str, known: list[str], alike: float) -> str:
    """Return the known name that resembles ``name``; "" if none does."""
    by_case = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(name.casefold(), by_case, 1, alike)
    return by_case[found[0]] if found else ""
