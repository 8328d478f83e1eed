"""See the package."""

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
from ..kernels.kernels import named
from ..measurements.gpus import inventory
from . import facts
from .hub import Hub
from .server import Failed, Kernel, Server

_SERVER = 300.0  # seconds until each is given up; a cold image on a busy file system takes long
_KERNEL = 180.0
_TERMINAL = 60.0
_FRAMEWORK = 180.0
_FACTS = 900.0
# print(1) in languages where that says something else, and what comes out.
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
# Where the kernel itself does not say which version its language is.
_VERSION = {"bash": "echo $BASH_VERSION"}
_ONE = re.compile(r"(?<![0-9.])1(?![0-9.])")
_FACTS_CODE = Path(facts.__file__).read_text(encoding="utf-8")
T = TypeVar("T")


def main() -> None:
    asyncio.run(check())


def say(step: str, **more: Any) -> None:
    """One line for whoever reads: standard output, which nothing else writes to."""
    sys.stdout.write(json.dumps({"step": step, **more}) + "\n")
    sys.stdout.flush()


async def check() -> None:
    """All of it; ``end`` is always said."""
    hub = Hub()
    hub.start()
    server = Server(hub)
    container = Container.of(os.environ)
    reason = ""
    try:
        say("server", seconds=round(await server.start(_SERVER), 2))
        wrong = await _kernels(server, container)
        wrong += await _terminal(server)
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
        raise Failed(f"{what} did not answer within {seconds:.0f} seconds.") from None


async def _kernels(server: Server, container: Container | None) -> list[str]:
    """Each kernel once; the sentences of those that did not do it."""
    found = (await _within(_KERNEL, "The list of kernels", server.ask("GET", "api/kernelspecs")))[
        "kernelspecs"
    ]
    titles = named(os.environ)
    wanted = list(titles) or sorted(found)
    wrong: list[str] = []
    told = False
    for name in wanted:
        spec = found.get(name, {}).get("spec", {})
        title = str(spec.get("display_name") or titles.get(name) or name)
        language = str(spec.get("language", ""))
        began, kernel = time.monotonic(), Kernel(server, name)
        reason = ""
        try:
            if not spec:
                raise Failed("It is not in the environment.")
            await _within(_KERNEL, "It", _prints(kernel, language))
        except Failed as error:
            reason = str(error)
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
        if not reason and language.lower() == "python" and not told and name != "python2":
            told = True
            say("facts", **await _facts(kernel, container))
        await kernel.stop()
    if not wanted:
        wrong.append("The environment has no kernel.")
    if not told:
        say("facts", **_about(container), versions={}, packages=[], added=[], gpus=None)
    say("gpus", **inventory(os.environ, lambda argv: _output(container, argv)))
    return wrong


async def _prints(kernel: Kernel, language: str) -> None:
    await kernel.start()
    said = await kernel.run(_PRINT.get(language.lower(), "print(1)"))
    if not _ONE.search(said):
        raise Failed(f"It printed {said[:80]!r} where 1 was to be seen.")
    ask = _VERSION.get(language.lower())
    if ask and not kernel.version:
        kernel.version = (await kernel.run(ask)).strip()[:40]


async def _facts(kernel: Kernel, container: Container | None) -> dict[str, Any]:
    """What its Python has; what cannot be read is left out."""
    code = f"{_FACTS_CODE}\nprint('PORTAL ' + json.dumps(collect({_FRAMEWORK})))\n"
    try:
        said = await _within(_FACTS, "The kernel", kernel.run(code))
        line = next(one for one in said.splitlines() if one.startswith("PORTAL "))
        found = dict(json.loads(line[len("PORTAL ") :]))
    except (Failed, StopIteration, ValueError) as error:
        print(f"Versions could not be read: {error}", file=sys.stderr)
        found = {"versions": {}, "packages": [], "added": [], "gpus": None}
    return {**_about(container), **found}


def _about(container: Container | None) -> dict[str, str]:
    """The distribution and the processor."""
    text = _output(container, ["cat", "/etc/os-release"])
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return {"distribution": name[1] if name else "", "architecture": platform.machine()}


def _output(container: Container | None, argv: list[str]) -> str:
    """What a program of the environment prints; "" where it fails."""
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
        # The echo of what is typed holds no 42.
        await socket.write_message(json.dumps(["stdin", "echo portal-$((40 + 2))\r"]))
        said = ""
        while "portal-42" not in said:
            text = await socket.read_message()
            if text is None:
                raise Failed("Its connection was closed.")
            kind, *values = json.loads(text)
            if kind == "stdout":
                said = (said + values[0])[-10_000:]
            elif kind == "disconnect":
                raise Failed("Its shell ended.")
    finally:
        socket.close()
        await server.ask("DELETE", f"api/terminals/{name}")


if __name__ == "__main__":
    main()
