"""Command line of the smoke test; see the package."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from ..kernels.container import Container
from ..kernels.plain_spec import named
from ..measurements.gpus import inventory
from . import facts
from .hub import CheckHub
from .server import Failed, Kernel, Server

_SERVER = 300.0  # time limits in seconds; a cold image on a busy file system takes long
_KERNEL = 180.0
_TERMINAL = 60.0
_FRAMEWORK = 180.0
_FACTS = 900.0
# Code that prints 1, by language; print(1) elsewhere.
_PRINT = {
    "bash": "echo 1",
    "sh": "echo 1",
    "r": "print(1)",
    "javascript": "console.log(1)",
    "julia": "print(1)",
    "c++": "#include <iostream>\nstd::cout << 1;",
    "ruby": "print 1",
    "scala": "print(1)",
    "octave": "disp(1)",
}
# Code that prints the version, for kernels that do not report it.
_VERSION = {"bash": "echo $BASH_VERSION"}
_ONE = re.compile(r"(?<![0-9.])1(?![0-9.])")
_FACTS_CODE = Path(facts.__file__).read_text(encoding="utf-8")
T = TypeVar("T")


def main() -> None:
    asyncio.run(check())


def say(step: str, **more: Any) -> None:
    """Write one line to standard output, which nothing else writes to."""
    sys.stdout.write(json.dumps({"step": step, **more}) + "\n")
    sys.stdout.flush()


async def check() -> None:
    """Run the whole test; ``end`` is always written."""
    hub = CheckHub()
    hub.start()
    server = Server(hub)
    container = Container.from_environ(os.environ)
    reason = ""
    try:
        say("server", seconds=round(await server.start(_SERVER), 2))
        wrong = await _kernels(server, container)
        wrong += await _terminal(server)
        wrong += _programs()
        reason = " ".join(wrong)
    except Failed as error:
        reason = str(error)
    finally:
        server.stop()
        hub.stop()
        say("end", reason=reason)


async def _within(seconds: float, what: str, work: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise Failed(f"{what} did not answer within {seconds:.0f} s.") from None


async def _kernels(server: Server, container: Container | None) -> list[str]:
    """Test each kernel once; return the sentences of those that failed."""
    specs = (await _within(_KERNEL, "The list of kernels", server.ask("GET", "api/kernelspecs")))[
        "kernelspecs"
    ]
    titles = named(os.environ)
    wanted = list(titles) or sorted(specs)
    wrong: list[str] = []
    has_facts = False
    for name in wanted:
        spec = specs.get(name, {}).get("spec", {})
        title = str(spec.get("display_name") or titles.get(name) or name)
        language = str(spec.get("language", ""))
        began, kernel = time.monotonic(), Kernel(server, name, spec)
        reason = ""
        try:
            if not spec:
                raise Failed("It is not in the environment.")
            await _within(_KERNEL, "It", _prints(kernel, language))
        except Failed as error:
            reason = kernel.reason(error)
            wrong.append(f"The kernel '{title}' does not work: {reason}")
        say(
            "kernel",
            name=name,
            title=title,
            language=language,
            passed=not reason,
            seconds=round(time.monotonic() - began, 2),
            version=kernel.version,
            reason=reason,
        )
        if not reason and language.lower() == "python" and not has_facts and name != "python2":
            has_facts = True
            say("facts", **await _facts(kernel, container))
        await kernel.stop()
    if not wanted:
        wrong.append("The environment has no kernel.")
    if not has_facts:
        say("facts", **_about(container), versions={}, packages=[], added=[], gpus=None)
    say("gpus", **inventory(os.environ, lambda argv: _output(container, argv)))
    return wrong


async def _prints(kernel: Kernel, language: str) -> None:
    await kernel.start()
    output = await kernel.run(_PRINT.get(language.lower(), "print(1)"))
    if not _ONE.search(output):
        raise Failed(f"It printed {output[:80]!r} instead of 1.")
    ask = _VERSION.get(language.lower())
    if ask and not kernel.version:
        kernel.version = (await kernel.run(ask)).strip()[:40]


async def _facts(kernel: Kernel, container: Container | None) -> dict[str, Any]:
    """Return the facts of a Python kernel; those that cannot be read are left out."""
    code = f"{_FACTS_CODE}\nprint('PORTAL ' + json.dumps(collect({_FRAMEWORK})))\n"
    try:
        output = await _within(_FACTS, "The kernel", kernel.run(code))
        line = next(text for text in output.splitlines() if text.startswith("PORTAL "))
        result = dict(json.loads(line[len("PORTAL ") :]))
    except (Failed, StopIteration, ValueError) as error:
        print(f"Versions could not be read: {error}", file=sys.stderr)
        result = {"versions": {}, "packages": [], "added": [], "gpus": None}
    return {**_about(container), **result}


def _about(container: Container | None) -> dict[str, str]:
    """Return the distribution and the architecture."""
    text = _output(container, ["cat", "/etc/os-release"])
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return {"distribution": name[1] if name else "", "architecture": platform.machine()}


def _output(container: Container | None, argv: list[str]) -> str:
    """Return the output of a program of the environment; "" if it fails."""
    env = None
    if container is not None:
        argv, env = container.command(argv), container.environment(os.environ)
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if not done.returncode else ""


def _programs() -> list[str]:
    """Run the guards of the programs that the environment opens (PORTAL_PROGRAMS, from the
    portal); return the sentences of those that fail."""
    wrong: list[str] = []
    for guard in json.loads(os.environ.get("PORTAL_PROGRAMS", "[]")):
        argv = [sys.executable if word == "{python}" else word for word in guard]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            wrong.append(last[:500] or "A program of the environment cannot be checked.")
    return wrong


async def _terminal(server: Server) -> list[str]:
    reason = ""
    try:
        await _within(_TERMINAL, "It", _echo(server))
    except Failed as error:
        reason = str(error)
    say("terminal", passed=not reason, reason=reason)
    return [f"The terminal does not work: {reason}"] if reason else []


async def _echo(server: Server) -> None:
    name = (await server.ask("POST", "api/terminals"))["name"]
    socket = await server.connect(f"terminals/websocket/{name}")
    try:
        # So that the terminal's echo of the command does not match.
        await socket.write_message(json.dumps(["stdin", "echo portal-$((40 + 2))\r"]))
        output = ""
        while "portal-42" not in output:
            text = await socket.read_message()
            if text is None:
                raise Failed("Its connection was closed.")
            kind, *values = json.loads(text)
            if kind == "stdout":
                output = (output + values[0])[-10_000:]
            elif kind == "disconnect":
                raise Failed("Its shell ended.")
    finally:
        socket.close()
        await server.ask("DELETE", f"api/terminals/{name}")


if __name__ == "__main__":
    main()
