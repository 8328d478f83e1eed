"""Generator of docs/reference/settings.md, from the settings' help, and of the generated part of
docs/reference/rest-api.md, from the API's OpenAPI document (`make docs`).

python -m docs.reference            write them
python -m docs.reference --check    check that they are up to date (exit status 1 if not)
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path

from traitlets import HasTraits, TraitType
from traitlets.traitlets import DefaultHandler

from . import rest_api

TARGET = Path(__file__).with_name("reference") / "settings.md"

# Every class with settings, in the order in which a site meets them.
CLASSES = (
    ("portal.directory.login", "PortalLogin"),
    ("portal.directory", "LDAPAuthenticator"),
    ("portal.directory.oidc", "OIDCAuthenticator"),
    ("portal.service_accounts", "ServiceAccounts"),
    ("spawners.config.roles", "PortalAdmins"),
    ("portal.catalog", "EnvironmentCatalog"),
    ("portal.catalog", "CatalogRules"),
    ("portal.images.settings", "Images"),
    ("portal.gpus.settings", "Gpus"),
    ("portal.images.registry.registry", "Registries"),
    ("portal.images.registry.credentials", "Secrets"),
    ("spawners.spawner", "PortalSpawner"),
    ("spawners.form.form", "LaunchForm"),
    ("spawners.host.storage", "Storage"),
    ("portal.slurm", "Cluster"),
    ("portal.slurm", "SlurmRunner"),
    ("portal.app", "PortalService"),
    ("portal.dashboard", "Dashboard"),
    ("portal.estimates", "StartEstimates"),
    ("portal.telemetry", "Telemetry"),
    ("portal.sessions.idle_gpus", "IdleGpus"),
    ("spawners.lifecycle.culler", "IdleSessions"),
    ("spawners.web.hub_application", "HubRequests"),
    ("portal.notices", "Notices"),
    ("portal.catalog.builds.scheduler", "BuildScheduler"),
    ("portal.catalog.versions.user_environments", "UserEnvironments"),
    ("portal.courses.settings", "Courses"),
    ("portal.projects.settings", "Projects"),
    ("portal.store", "Store"),
    ("portal.launch.extending", "Extending"),
    ("portal.work.kernel.settings", "JobKernels"),
    ("portal.launch.programs", "Programs"),
    ("portal.work.run.settings", "Runs"),
    ("portal.features", "Works"),
    ("portal.work.replicas.settings", "Replicas"),
    ("portal.command", "SiteCommand"),
    ("portal.store.command", "CopyCommand"),
    ("portal.courses.command", "CourseImportCommand"),
    ("portal.catalog.cli.environments", "ExportCommand"),
    ("portal.catalog.cli.environments", "ImportCommand"),
    ("portal.catalog.cli.testing", "TestCommand"),
    ("portal.catalog.cli.images", "ListCommand"),
    ("portal.catalog.cli.images", "PruneCommand"),
    ("portal.catalog.cli.images", "CacheCommand"),
    ("portal.doctor.app", "DoctorApp"),
    ("portal.demo.app", "DemoApp"),
)

HEAD = """\
# Settings

Made from the settings' own help by `make docs`; change it there.

Settings stand in the Hub's configuration file as `c.Class.setting = value`; those of commands can
stand on the command line too, as `--Class.setting=value`. Here are the portal's own. What its
classes take over from JupyterHub and batchspawner is described there:
[JupyterHub](https://jupyterhub.readthedocs.io/en/stable/reference/config-reference.html),
[batchspawner](https://github.com/jupyterhub/batchspawner).
"""


def classes() -> list[type[HasTraits]]:
    """Return the classes with settings."""
    return [getattr(importlib.import_module(module), name) for module, name in CLASSES]


def settings(kind: type[HasTraits]) -> dict[str, TraitType]:
    """Return the settings that the portal itself defines in a class, or in a base of it that is not
    in ``CLASSES`` too, by name."""
    bases = set(classes()) - {kind}
    return {
        name: trait
        for name, trait in kind.class_traits(config=True).items()
        if trait.this_class.__module__.split(".")[0] in ("portal", "spawners")
        and trait.this_class not in bases
    }


def page() -> str:
    """Build the whole page, as Markdown."""
    parts = [HEAD]
    for kind in classes():
        about = inspect.getdoc(kind) or ""
        parts.append(f"\n## {kind.__name__}\n\n{about.partition(chr(10) * 2)[0]}\n")
        for name, trait in settings(kind).items():
            parts.append(
                f"\n### `c.{kind.__name__}.{name}`\n\n"
                f"{type(trait).__name__}, default {default_of(kind, name, trait)}\n\n"
                f"{markdown(trait.help)}\n"
            )
    return "".join(parts)


def default_of(kind: type[HasTraits], name: str, trait: TraitType) -> str:
    """Return the default as written in a configuration file; "computed" for dynamic defaults."""
    for parent in kind.__mro__:
        handlers = (attr for attr in vars(parent).values() if isinstance(attr, DefaultHandler))
        if f"_{name}_default" in vars(parent) or any(attr.trait_name == name for attr in handlers):
            return "computed"
    return f"`{trait.default_value_repr()}`"


def markdown(text: str) -> str:
    """Convert help to Markdown: the text after an ``Example::`` becomes a code block."""
    text = inspect.cleandoc(text)
    return re.sub(
        r"::\n\n((?: {2,}.*(?:\n|$)|\n)+)",
        lambda block: ":\n\n```python\n" + textwrap.dedent(block[1]).strip("\n") + "\n```\n\n",
        text,
    ).strip()


def main() -> int:
    """Write the pages or, with --check, compare them."""
    stale = 0
    for target, wanted in ((TARGET, page()), (rest_api.TARGET, rest_api.page())):
        if "--check" not in sys.argv[1:]:
            target.parent.mkdir(exist_ok=True)
            target.write_text(wanted)
            print(f"Wrote {target}.")
        elif not target.is_file() or target.read_text() != wanted:
            print(f"{target} is not up to date: run `make docs`.", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
