"""Signatures of images, with the PGP keyring of the account that builds them (apptainer-key(1))."""

from __future__ import annotations

import re
from pathlib import Path

from ..outcome import CouldNotRun, WorkFailed
from .apptainer import Apptainer, ApptainerFailed


def sign(apptainer: Apptainer, image: Path, fingerprint: str) -> None:
    """Sign ``image`` with the secret key of this fingerprint, which must have no passphrase.

    Raises CouldNotRun if the keyring does not have it, WorkFailed if signing fails.
    """
    apptainer.sign(image, _number(apptainer.keys(), fingerprint))
    verify(apptainer, image)


def verify(apptainer: Apptainer, image: Path) -> None:
    """Raise WorkFailed unless ``image`` carries a good signature of a key in the keyring."""
    try:
        apptainer.verify(image)
    except ApptainerFailed as error:
        if "signature not found" in error.full_output:
            why = "it is not signed"
        elif re.search(r"key not found|unknown entity|no key", error.full_output):
            why = "it is signed with a key that is not in the keyring"
        else:
            why = "its signature is broken: the file was changed after it was signed"
        raise WorkFailed(
            f"'{image.name}' is refused: {why}. This site requires a valid signature by a key "
            "of its keyring (c.Images.verify)."
        ) from None


def keyring(configured: str) -> str:
    """Return the folder of the keyring: the site's (c.Images.keyring), or this account's own."""
    return configured or str(Path.home() / ".apptainer/keys")


def _number(lines: list[str], fingerprint: str) -> int:
    """Return the number of the key in Apptainer's list, which selects it. Raises CouldNotRun."""
    wanted = re.sub(r"[^0-9A-F]", "", fingerprint.upper())
    number = -1
    for line in lines:
        if match := re.match(r"\s*(\d+)\)", line):
            number = int(match.group(1))
        elif match := re.search(r"Fingerprint:\s*([0-9A-Fa-f]+)", line):
            if len(wanted) >= 16 and match.group(1).upper().endswith(wanted):
                return number
    raise CouldNotRun(
        f"The keyring of the builds' account has no secret key '{fingerprint[:60]}' "
        "(c.Images.sign_key). `apptainer key list --secret` lists its keys."
    )
