"""Citation of a run: metadata by DataCite's schema 4, with which a repository registers a DOI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from .. import RunError

SCHEMA = "http://datacite.org/schema/kernel-4"
UNAVAILABLE = ":unav"  # DataCite's word for a value that is not known yet (schema 4, appendix 3)
LONGEST = 1000  # characters of a text
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}", re.ASCII)
_SPDX = "https://spdx.org/licenses"


def citation(
    run: Mapping[str, Any],
    *,
    title: str,
    creators: Sequence[str],
    license: str,
    description: str,
) -> dict[str, Any]:
    """Return the metadata of the portal's ``run``. ``license``: an identifier of SPDX's, or "".
    Raises RunError for what cannot be registered."""
    for name, text in (("title", title), ("description", description), *_named(creators)):
        if len(text) > LONGEST or not text.isprintable():
            raise RunError(f"The {name} must be one line of at most {LONGEST:,} characters.")
    if not creators or not all(name.strip() for name in creators):
        raise RunError("Name who made the run: --creator 'Family name, Given name'.")
    if license and not _LICENSE.fullmatch(license):
        raise RunError(f"'{license[:80]}' is not a license's SPDX identifier, such as CC-BY-4.0.")
    ended = datetime.fromtimestamp(float(run["ended_at"]), timezone.utc)
    began = datetime.fromtimestamp(float(run["created_at"]), timezone.utc)
    metadata: dict[str, Any] = {
        "schemaVersion": SCHEMA,
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Computational run"},
        "titles": [{"title": title.strip() or f"Run {run['name']}"}],
        "creators": [{"name": name.strip()} for name in creators],
        "publisher": {"name": UNAVAILABLE},
        "publicationYear": str(datetime.now(timezone.utc).year),
        "dates": [
            {"date": f"{began:%Y-%m-%d}/{ended:%Y-%m-%d}", "dateType": "Created"},
        ],
        "alternateIdentifiers": [
            {"alternateIdentifier": run["id"], "alternateIdentifierType": "Run"}
        ],
        "formats": ["application/zip"],
    }
    if description:
        metadata["descriptions"] = [{"description": description, "descriptionType": "Abstract"}]
    if license:
        metadata["rightsList"] = [
            {
                "rights": license,
                "rightsUri": f"{_SPDX}/{license}.html",
                "rightsIdentifier": license,
                "rightsIdentifierScheme": "SPDX",
                "schemeUri": f"{_SPDX}/",
            }
        ]
    return metadata


def _named(creators: Sequence[str]) -> list[tuple[str, str]]:
    return [("name of a creator", name) for name in creators]
