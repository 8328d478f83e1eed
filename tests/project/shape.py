"""``python -m tests.project.shape [FOLDER]``: measures of the shape of a checkout, as a table.

``FOLDER``: another checkout, to compare two versions. The words that it counts are those of
docs/architecture.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("portal", "spawners", "kernels", "static", "templates")
_SUFFIXES = {".py", ".js", ".ts", ".tsx", ".css", ".html"}
_SKIPPED = {"node_modules", "__pycache__", "lib", "build", "dist", "vendor"}
# What finds a kind in the name of a server, in this version and in those before.
_DERIVE = re.compile(
    r"\b(reserved_for|work_and_space|is_kernel|serves)\(|(?<!\.)\bof_server\("
    r"|\.owns\(|\bkind_of\((record\)|item\)) *(==|!=|if)"
    r"|(?<!await )\bserver_of\((spawner|server|share)"
)
_COURSE = re.compile(r"course", re.IGNORECASE)
_SETTING = re.compile(r"= setting\(")
_COMMENT = {
    ".html": re.compile(r"\{#.*?#\}|<!--.*?-->", re.DOTALL),
    ".css": re.compile(r"/\*.*?\*/", re.DOTALL),
    ".js": re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE),
}


def files(root: Path, *folders: str) -> Iterator[Path]:
    """Yield the files of source text below ``folders``, in order."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            parts = set(path.relative_to(root / folder).parts)
            if path.suffix in _SUFFIXES and path.is_file() and not parts & _SKIPPED:
                yield path


def code_lines(path: Path) -> int:
    """Return the number of lines of a file without blank lines, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return len(_of_python(text))
    comment = _COMMENT.get(path.suffix, _COMMENT[".js"])
    return sum(bool(line.strip()) for line in comment.sub("", text).splitlines())


def _of_python(text: str) -> set[int]:
    lines: set[int] = set()
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored and token.type != tokenize.ENDMARKER:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str) and node.end_lineno is not None:
                lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


def derivations(root: Path) -> list[str]:
    """Return where a kind is derived from a name: "file:line"."""
    found = []
    for path in files(root, "portal", "spawners"):
        if path.is_relative_to(root / "portal/launch"):  # what says how names are read
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _DERIVE.search(line) and not line.lstrip().startswith(("def ", "async def ", "#")):
                found.append(f"{path.relative_to(root)}:{number}")
    return found


def naming_courses(root: Path) -> list[str]:
    """Return the files outside of folders of courses that name courses in their code."""
    named = []
    for path in files(root, *PRODUCT):
        name = path.relative_to(root).as_posix()
        if "course" not in name and _COURSE.search(path.read_text(encoding="utf-8")):
            named.append(name)
    return named


def measures(root: Path) -> dict[str, int]:
    """Return the measures by their names."""
    product = {folder: sum(map(code_lines, files(root, folder))) for folder in PRODUCT}
    python = [path.read_text(encoding="utf-8") for path in files(root, "portal", "spawners")]
    return {
        **{f"code lines of {folder}": lines for folder, lines in product.items()},
        "code lines of the product": sum(product.values()),
        "code lines of the tests": sum(map(code_lines, files(root, "tests"))),
        "places that derive a kind from a name": len(derivations(root)),
        "files outside of courses that name courses": len(naming_courses(root)),
        # A file for courses among those that are for all: of kinds, or of a session's endpoints.
        "twins of kinds for courses": sum(
            path.name.startswith("course_")
            for path in files(root, "portal/launch/kinds", "portal/handlers/sessions")
        ),
        "files in portal/services": len(list(files(root, "portal/services"))),
        "settings": sum(len(_SETTING.findall(text)) for text in python),
    }


def main() -> None:
    """Print the measures."""
    for name, number in measures(Path(*sys.argv[1:2]).resolve() if sys.argv[1:] else ROOT).items():
        print(f"{number:>8,}  {name}")


if __name__ == "__main__":
    main()
