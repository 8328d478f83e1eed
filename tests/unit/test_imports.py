"""Imports go in one direction: who may know whom (docs/architecture.md)."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each room, and the rooms that it may import from. Rooms without code yet stand here too, so that
# their place is known: images, store, hubapi, telemetry, courses.
BASE = {
    "models",
    "errors",
    "cache",
    "periodic",
    "paths",
    "plugins",
    "setting",
    "fixed_settings",
    "command",
    "session_packages",
    "addresses",
    "acl",
    "disk",
    "safe_path",
    "web",
    "service_accounts",
    "gpus",
    "spaces",
    "navigation",
}
ADAPTERS = {"slurm", "directory", "images", "store", "hubapi", "telemetry"}
NOUNS = {"catalog", "sessions", "courses", "dashboard", "notices", "estimates"}
MAY_KNOW: dict[str, set[str]] = {
    "models": set(),
    "errors": set(),
    "cache": {"errors"},
    "periodic": {"errors"},
    "paths": {"errors"},
    "where": {"paths"},
    "plugins": {"errors"},
    "setting": set(),
    "fixed_settings": set(),
    "command": {"errors", "fixed_settings"},
    "addresses": {"errors"},
    "acl": set(),
    "disk": {"errors"},
    "safe_path": set(),
    "web": set(),
    "service_accounts": {"errors", "setting"},
    "session_packages": {"errors", "paths"},
    "gpus": {"plugins", "setting"},
    "spaces": {"models", "errors", "cache"},
    "navigation": {"models"},
    "launch": BASE,
    "features": BASE | {"launch", "plugins", "store"},
    # Beside its own, the settings of courses; and its tables.
    "work": BASE | {"launch", "features", "courses", "projects", "store"},
    # A type of spaces, whose parts are loaded by name, as those of a work are.
    "projects": BASE | ADAPTERS | NOUNS | {"launch", "features", "work", "assembly", "handlers"},
    # What a folder of a work has besides its kind and its settings; it is loaded by name.
    "work parts": BASE
    | ADAPTERS
    | NOUNS
    | {"launch", "features", "work", "assembly", "handlers", "gateway"},  # the gateway's keys
    **{adapter: BASE | {"launch"} for adapter in ADAPTERS},
    **{noun: BASE | ADAPTERS | {"launch"} for noun in NOUNS},
    "store": BASE | {"launch", "work"},  # its commands make the tables of each work
    "sessions": BASE | ADAPTERS | {"launch", "work"},  # an item has the words of its work
    # Their environments come from the catalog; a file of a course is read as one of those.
    "courses": BASE | ADAPTERS | {"launch", "work", "catalog", "sessions", "dashboard"},
    "notices": BASE | ADAPTERS | {"launch", "sessions"},  # the mails lead to a session
    "dashboard": BASE | ADAPTERS | {"launch", "sessions"},  # it drives their usage meter
    "audit_log": BASE | {"store"},
    "assembly": BASE | ADAPTERS | NOUNS | {"launch", "features", "work", "audit_log"},
    "images": BASE | {"launch", "work"},  # a smoke test runs the guards of programs
    "handlers": BASE | ADAPTERS | NOUNS | {"launch", "features", "work", "assembly"},
    "home": BASE | ADAPTERS | NOUNS | {"launch", "work", "assembly", "handlers"},  # loaded by name
    "app": BASE | ADAPTERS | NOUNS | {"launch", "features", "handlers", "assembly"},
    # The cache keeps tables of a database; the showcase writes a past into it, in the words of
    # sessions and courses.
    "gateway": {"command", "errors", "models"},  # a process of its own, without the service's parts
    "demo": BASE | {"store", "sessions", "courses", "features", "work"},
    "doctor": BASE | ADAPTERS | NOUNS | {"launch", "features", "work", "projects"},
    # It reads a site as the doctor does, and which settings name files.
    "backup": BASE | {"app", "doctor", "gateway", "sessions", "slurm", "store", "work"},
    "proxy": {"errors", "paths", "web"},  # a process of its own
    # It writes what the doctor checks then.
    "setup": {"catalog", "command", "directory", "disk", "errors", "paths", "proxy"},
    "__main__": {"app", "backup", "command", "demo", "doctor", "proxy", "setup"},
    "__init__": set(),
}


def imported(path: Path, source: str = "") -> set[str]:
    """Absolute dotted names of everything that a module imports, wherever in the file (or that
    ``source`` would import in its place)."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(source or path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported_at_once(path: Path) -> set[str]:
    """Absolute dotted names of what a module's import imports, with the names taken from it."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for part in ast.walk(node)
    }
    lines = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in inside
    ]
    return imported(path, "\n".join(lines))


def test_a_hub_with_other_logins_imports_no_ldap3() -> None:
    """A Hub imports the authenticators of all installed packages; ldap3 takes 5 MiB."""
    known, new = set[Path](), {ROOT / "portal/directory/__init__.py"}
    while new:
        known |= new
        names = {name for path in new for name in imported_at_once(path)}
        assert not [name for name in names if name.split(".")[0] == "ldap3"], new
        places = {ROOT / f"{name.rpartition('.')[0].replace('.', '/')}.py" for name in names}
        places |= {ROOT / f"{name.replace('.', '/')}.py" for name in names}
        new = {place for place in places if place.exists()} - known
    assert ROOT / "portal/directory/authenticator.py" in known


@pytest.mark.parametrize("path", modules("portal"), ids=lambda p: str(p.relative_to(ROOT)))
def test_portal_module_knows_only_rooms_below_it(path: Path) -> None:
    parts = path.relative_to(ROOT / "portal").with_suffix("").parts
    room = parts[0]
    if room == "work" and len(parts) > 2 and parts[2] not in ("kind", "settings", "__init__"):
        room = "work parts"
    assert room in MAY_KNOW, f"portal/{room} is not a package of docs/architecture.md"
    for name in imported(path):
        top, _, rest = name.partition(".")
        assert top not in ("spawners", "portal_session"), f"{path} imports {name}"
        if top == "portal" and rest:
            other = rest.split(".")[0]
            if other == room or other == "__version__":
                continue
            assert other in MAY_KNOW[room], f"{path} imports {name}"


@pytest.mark.parametrize("path", modules("spawners"), ids=lambda p: str(p.relative_to(ROOT)))
def test_spawners_do_not_know_the_service(path: Path) -> None:
    for name in imported(path):
        assert not name.startswith(("portal_session", "portal.handlers", "portal.app")), name


@pytest.mark.parametrize("path", modules("kernels"), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_session_package_stands_alone(path: Path) -> None:
    for name in imported(path):
        assert name.split(".")[0] not in ("portal", "spawners"), f"{path} imports {name}"


def name_of(path: Path) -> str:
    """The dotted name of a module, from the repository's root."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_other_files_know_each_other() -> None:
    """Imports for types count, and those inside of functions."""
    paths = {
        name_of(path): path for room in ("portal", "spawners", "kernels") for path in modules(room)
    }
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        found = imported(path)
        graph[name] = {one if one in paths else one.rpartition(".")[0] for one in found} & set(
            paths
        )
        graph[name] -= {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("These know each other: " + " <- ".join(error.args[1]))
