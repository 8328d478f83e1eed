"""Settings of the jobs that make and test images."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from traitlets import Bool, Dict, Unicode, default
from traitlets.config import LoggingConfigurable

from ..models.session.resources import Resources
from ..setting import setting


class Images(LoggingConfigurable):
    """Folder of images, and settings of the jobs that build and test them."""

    directory = setting(
        Unicode("/srv/portal/images"),
        """Directory of finished images, on a file system that all nodes share, writable by the
        builds' account and readable by everyone. It also contains the download cache.""",
        'c.Images.directory = "/shared/portal/images"',
    ).tag(backup="")

    service_account = setting(
        Unicode(""),
        """Account that runs builds and tests; empty: the service's own. Another account needs a
        sudo rule, as users do. It must not be a user's account.""",
        'c.Images.service_account = "portal-images"',
    )

    slurm_account = setting(
        Unicode(""),
        "Slurm account of builds and tests; empty: the default of the account that they run as.",
        'c.Images.slurm_account = "services"',
    )

    partition = setting(
        Unicode(""),
        "Partition of builds and of tests without GPUs; empty: Slurm's default.",
        'c.Images.partition = "cpu"',
    )

    qos = setting(
        Unicode(""),
        "QOS of builds and tests; empty: Slurm's default.",
        'c.Images.qos = "low"',
    )

    resources = setting(
        Dict(default_value={"cpus": 4, "memory": "16G", "time": "4:00:00"}),
        "Resources of a build: cpus, memory and time.",
        'c.Images.resources = {"cpus": 8, "memory": "32G", "time": "6:00:00"}',
    )

    test_resources = setting(
        Dict(default_value={"cpus": 2, "memory": "8G", "time": "0:20:00"}),
        "Resources of a smoke test, in addition to its GPU.",
        'c.Images.test_resources = {"cpus": 4, "memory": "16G", "time": "0:30:00"}',
    )

    python = setting(
        Unicode(),
        """Python on the nodes with the portal installed, readable by the accounts of the jobs.
        Default: the Python that runs the service.""",
        'c.Images.python = "/opt/portal/bin/python3"',
    )

    apptainer = setting(
        Unicode(),
        "Absolute path of apptainer (or singularity) on the nodes.",
        'c.Images.apptainer = "/opt/apptainer/bin/apptainer"',
    )

    log_directory = setting(
        Unicode("/var/log/data-scientist-portal/images"),
        """Directory of the jobs' logs. The service creates the files, so that it can read them, and
        the nodes write to them.""",
        'c.Images.log_directory = "/shared/portal/logs/images"',
    ).tag(backup="")

    wheels = setting(
        Unicode("/srv/portal/wheels"),
        """Directory on the nodes with the wheel of portal-session, which is installed into every
        image.""",
        'c.Images.wheels = "/shared/portal/wheels"',
    )

    scratch = setting(
        Unicode(""),
        """Directory on the nodes for the files that builds unpack, preferably on a local disk;
        empty: ``directory``. A build needs about six times the size of its download.""",
        'c.Images.scratch = "/local/scratch"',
    )

    sign_key = setting(
        Unicode(""),
        """Fingerprint of a PGP key in the keyring of the builds' account (``apptainer key list
        --secret``). Finished images are signed with it; empty: they are not signed.""",
        'c.Images.sign_key = "7605BC2716168DF057D6C600ACEEC62C8BD91BEE"',
    )

    verify = setting(
        Bool(False),
        """Require a valid signature, of a key in the keyring, before an image is tested or used.
        This includes SIF files that were built elsewhere.""",
        "c.Images.verify = True",
    )

    keyring = setting(
        Unicode(""),
        """Directory of Apptainer's PGP keyring on the nodes, for ``sign_key`` and ``verify``;
        empty: the account's own (``~/.apptainer/keys``).""",
        'c.Images.keyring = "/etc/data-scientist-portal/keys"',
    ).tag(backup="secret")

    public_keys = setting(
        Unicode(""),
        """File of the public keys that ``verify`` trusts when a session starts: a copy of
        ``pgp-public`` from the keyring of the builds, readable by everyone on the nodes
        (Apptainer's keyring is readable only by its owner). Empty: the keyrings of the user and the
        node.""",
        'c.Images.public_keys = "/etc/data-scientist-portal/image-keys.pgp"',
    ).tag(backup="files")

    node_cache = setting(
        Unicode(""),
        """Directory on each node's local disk into which images are unpacked, owned by the account
        of the builds. Sessions then start from there. Empty: they start from the SIF file.""",
        'c.Images.node_cache = "/local/portal/images"',
    )

    simulated_gpus = setting(
        Bool(False),
        """Declare the GPUs of this site as simulated, as in the demo. Tests then do not check
        for GPUs.""",
        "c.Images.simulated_gpus = True",
    )

    beside = setting(
        Unicode(""),
        """Virtual environment on the nodes with JupyterLab and portal-session. It runs the server
        for images that cannot run one themselves; only the kernel then runs in the container.""",
        'c.Images.beside = "/opt/portal-session"',
    )

    @default("python")
    def _default_python(self) -> str:
        return sys.executable

    @default("apptainer")
    def _default_apptainer(self) -> str:
        return shutil.which("apptainer") or shutil.which("singularity") or "/usr/bin/apptainer"

    def build_resources(self) -> Resources:
        """Return what a build asks Slurm for. Raises pydantic's ValidationError if it is wrong."""
        return Resources(**{**self._where(), **self.resources})

    def resources_of_test(self, gpu_type: str = "") -> Resources:
        """Return what a smoke test asks Slurm for: one GPU of the type, or none for ""."""
        gpu: dict[str, Any] = {"gpus": 1, "gpu_type": gpu_type} if gpu_type else {}
        # A GPU type is in the partitions that have it; Slurm knows which.
        where = self._where()
        if gpu_type and "partition" not in self.test_resources:
            where.pop("partition", None)
        return Resources(**{**where, **self.test_resources, **gpu})

    def _where(self) -> dict[str, Any]:
        pairs = {
            "partition": self.partition,
            "account": self.slurm_account,
            "qos": self.qos,
        }
        return {name: value for name, value in pairs.items() if value}
