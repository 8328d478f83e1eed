"""JupyterLab of a session, in a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from .demo import START

OWN = Path(__file__).with_name("first-look.ipynb")
FOLDER = "tour"  # in the home: the notebook and the logs of these pictures
LOGS = re.compile("^(logs|curves)")  # folders in which the notebooks write
STARTERS = {"pytorch": "portal-starters/pytorch/pytorch.ipynb"}
BOARD = "iframe[src*='portal/tensorboard']"
SEND = """async ([method, path, body]) => {
  const token = /(?:^|; )_xsrf=([^;]+)/.exec(document.cookie)?.[1] ?? "";
  const headers = { "Content-Type": "application/json", "X-XSRFToken": token };
  const answer = await fetch(path, { method, body: body && JSON.stringify(body), headers });
  return [answer.status, await answer.text()];
}"""


class Lab:
    """JupyterLab that ``page`` shows."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.base = page.url.split("/lab")[0]

    def work(self, environment: str) -> str:
        """Return the path of the environment's starter notebook, or else that of ``own``."""
        if environment not in STARTERS:
            return self.own()
        self._wait_for(STARTERS[environment])  # the session copies it after its start
        return STARTERS[environment]

    def own(self) -> str:
        """Copy the notebook of these pictures to the home, and return its path there."""
        self._send("PUT", f"api/contents/{FOLDER}", {"type": "directory"})
        notebook = {"type": "notebook", "content": json.loads(OWN.read_text())}
        self._send("PUT", f"api/contents/{FOLDER}/{OWN.name}", notebook)
        return f"{FOLDER}/{OWN.name}"

    def open(self, path: str) -> None:
        """Open the notebook alone, whatever JupyterLab opens by itself, and wait for its kernel."""
        self.page.goto(f"{self.base}/lab/workspaces/pictures/tree/{path}?reset")
        expect(self.page.locator(".jp-Notebook")).to_be_visible(timeout=START)
        self.idle()

    def follow_the_system(self, follow: bool = True) -> None:
        """Let pages that are opened from now on be light or dark as the system is, or undo that."""
        settings = json.dumps({"adaptive-theme": True} if follow else {})
        name = "@jupyterlab/apputils-extension:themes"
        self._send("PUT", f"lab/api/settings/{name}", {"raw": settings})

    def cells(self, path: str) -> int:
        """Return the number of cells of the notebook."""
        return len(json.loads(self._send("GET", f"api/contents/{path}"))["content"]["cells"])

    def idle(self) -> None:
        """Wait until the notebook's kernel is idle and no cell waits for it."""
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=START)
        waiting = self.page.locator(".jp-InputPrompt", has_text="[*]")
        expect(waiting).to_have_count(0, timeout=START)

    def run(self, path: str) -> None:
        """Run the cells of the open notebook."""
        self.first_cell().click()
        for _ in range(self.cells(path)):
            self.page.keyboard.press("Shift+Enter")
        self.idle()

    def first_cell(self) -> Any:
        """Return the notebook's first cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").first

    def status(self) -> Any:
        """Return the portal's part of the status bar, once it tells of the session's GPUs."""
        item = self.page.locator(".portal-StatusItem")
        expect(item).to_contain_text(re.compile(r"left .* GPU .*\d %"), timeout=START)
        expect(item).not_to_have_class(re.compile("portal-mod-stale"), timeout=START)
        return item.get_by_role("button")

    def menu_of_logs(self) -> Any:
        """Open the menu of the folder with logs, which the file browser shows beside the notebook;
        return its entry for TensorBoard."""
        folder = self.page.locator(".jp-DirListing-item", has_text=LOGS)
        folder.click(button="right", timeout=START)  # the list is renewed every ten seconds
        return self.page.get_by_role("menuitem", name="Open in TensorBoard")

    def tensorboard(self) -> None:
        """Wait for the curves of the TensorBoard that is opening, and make room for them."""
        board = self.page.frame_locator(BOARD)
        expect(board.get_by_text("loss").first).to_be_visible(timeout=START)
        self.page.wait_for_timeout(3000)  # the curves are drawn
        if board.get_by_text("Horizontal Axis").is_visible():
            board.get_by_role("button").filter(has_text="Settings").click()
            self.page.wait_for_timeout(1000)

    def tensorboard_again(self) -> None:
        """Load TensorBoard again: only then does it become light or dark as the system is."""
        self.page.locator(BOARD).evaluate("frame => frame.contentWindow.location.reload()")
        self.page.wait_for_timeout(1000)
        self.tensorboard()

    def _wait_for(self, path: str) -> None:
        for _ in range(START // 2000):
            if self._ask("GET", f"api/contents/{path}?content=0")[0] == 200:
                return
            self.page.wait_for_timeout(2000)
        raise TimeoutError(f"The session has no {path}.")

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> str:
        status, text = self._ask(method, path, body)
        if status >= 400:
            raise ValueError(f"{method} {path}: {status} {text}")
        return text

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        status, text = self.page.evaluate(SEND, [method, f"{self.base}/{path}", body])
        return int(status), str(text)
