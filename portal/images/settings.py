"""Settings of the jobs that make and test images."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from traitlets import Bool, Dict, Unicode, default
from traitlets.config import LoggingConfigurable

from ..models.session.resources import Resources


class Images(LoggingConfigurable):
    """Folder of images, and settings of the jobs that build and test them."""

    directory = Unicode(
        "/srv/portal/images",
        help="""
        The folder of finished images and of the download cache, on a file system that all nodes
        mount. The account of the builds writes there; all users can read it.

        Example::

            c.Images.directory = "/shared/portal/images"
        """,
    ).tag(config=True)

    service_account = Unicode(
        "",
        help="""
        The account that runs builds and tests; empty: the service's own. Another account needs an
        entry in sudoers, as users do. It must not be a user's account.

        Example::

            c.Images.service_account = "portal-images"
        """,
    ).tag(config=True)

    slurm_account = Unicode(
        "",
        help="""
        The Slurm account of builds and tests; empty: the default account of their user.

        Example::

            c.Images.slurm_account = "services"
        """,
    ).tag(config=True)

    partition = Unicode(
        "",
        help="""
        The partition of builds and of tests without GPUs; empty: Slurm's default.

        Example::

            c.Images.partition = "cpu"
        """,
    ).tag(config=True)

    qos = Unicode(
        "",
        help="""
        The QOS of builds and tests; empty: Slurm's default.

        Example::

            c.Images.qos = "low"
        """,
    ).tag(config=True)

    resources = Dict(
        default_value={"cpus": 4, "memory": "16G", "time": "4:00:00"},
        help="""
        Resources of a build: cpus, memory and time.

        Example::

            c.Images.resources = {"cpus": 8, "memory": "32G", "time": "6:00:00"}
        """,
    ).tag(config=True)

    test_resources = Dict(
        default_value={"cpus": 2, "memory": "8G", "time": "0:20:00"},
        help="""
        Resources of a smoke test, in addition to its GPU.

        Example::

            c.Images.test_resources = {"cpus": 4, "memory": "16G", "time": "0:30:00"}
        """,
    ).tag(config=True)

    python = Unicode(
        help="""
        A Python on the nodes that has the portal installed, readable by the accounts of the jobs;
        default: the Python that runs the service.

        Example::

            c.Images.python = "/opt/portal/bin/python3"
        """,
    ).tag(config=True)

    apptainer = Unicode(
        help="""
        The program apptainer (or singularity) on the nodes: an absolute path.

        Example::

            c.Images.apptainer = "/opt/apptainer/bin/apptainer"
        """,
    ).tag(config=True)

    log_directory = Unicode(
        "/var/log/data-scientist-portal/images",
        help="""
        The folder of the jobs' logs. The service creates the files, so that it can read them; the
        jobs write into them.

        Example::

            c.Images.log_directory = "/shared/portal/logs/images"
        """,
    ).tag(config=True)

    wheels = Unicode(
        "/srv/portal/wheels",
        help="""
        A folder on the nodes with the wheel of portal-session, which goes into every image.

        Example::

            c.Images.wheels = "/shared/portal/wheels"
        """,
    ).tag(config=True)

    scratch = Unicode(
        "",
        help="""
        A folder on the nodes where builds unpack images, preferably on a local disk; empty:
        ``directory``. A build needs about six times the size that it pulls.

        Example::

            c.Images.scratch = "/local/scratch"
        """,
    ).tag(config=True)

    sign_key = Unicode(
        "",
        help="""
        The fingerprint of a PGP key in the keyring of the builds' account (``apptainer key list
        --secret``). Finished images are signed with it; empty: they are not signed.

        Example::

            c.Images.sign_key = "7605BC2716168DF057D6C600ACEEC62C8BD91BEE"
        """,
    ).tag(config=True)

    verify = Bool(
        False,
        help="""
        Whether an image must have a valid signature by a key of the keyring before it is tested or
        used. SIF files made elsewhere then need a signature, too.

        Example::

            c.Images.verify = True
        """,
    ).tag(config=True)

    keyring = Unicode(
        "",
        help="""
        The folder of Apptainer's PGP keyring on the nodes, for ``sign_key`` and ``verify``; empty:
        the account's own (``~/.apptainer/keys``).

        Example::

            c.Images.keyring = "/etc/data-scientist-portal/keys"
        """,
    ).tag(config=True)

    public_keys = Unicode(
        "",
        help="""
        A file with the public keys that ``verify`` trusts when a session starts: a copy of
        ``pgp-public`` of the builds' keyring that all users on the nodes can read, because only
        its owner can read Apptainer's keyring. Empty: the keyrings of the user and the node.

        Example::

            c.Images.public_keys = "/etc/data-scientist-portal/image-keys.pgp"
        """,
    ).tag(config=True)

    node_cache = Unicode(
        "",
        help="""
        A folder on each node's local disk, owned by the account of the builds, into which images
        are unpacked: sessions then start from there. Empty: sessions start from the SIF file.

        Example::

            c.Images.node_cache = "/local/portal/images"
        """,
    ).tag(config=True)

    simulated_gpus = Bool(
        False,
        help="""
        Whether the GPUs of this site are simulated, as in the demo; tests then do not look for
        GPUs.

        Example::

            c.Images.simulated_gpus = True
        """,
    ).tag(config=True)

    beside = Unicode(
        "",
        help="""
        A virtual environment on the nodes with JupyterLab and portal-session. It runs the
        server for images that cannot run one themselves; only the kernel then runs in the
        container.

        Example::

            c.Images.beside = "/opt/portal-session"
        """,
    ).tag(config=True)

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
