"""A real Chromium without a window, steered by its DevTools protocol: pages as people get them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WAIT_S = 60.0
_READY = "DevTools listening on "


def installed() -> str | None:
    """Where a Chromium is; None when there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._sent = socket, 0

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Ask the browser, and wait for the answer."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": values}))
        while True:
            answer = json.loads(self._socket.recv(timeout=_WAIT_S))
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until an expression is true; returns its value. Fails with the page's text when it never is."""
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end:
            if found := self.run(script):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{script} was never true on: {self.text()[:2000]}")

    def shows(self, *texts: str) -> None:
        """Wait until the page shows all of these."""
        self.until(f"{json.dumps(texts)}.every(text => document.body && document.body.innerText.includes(text))")

    def text(self) -> str:
        """What one can read."""
        return self.run("document.body ? document.body.innerText : ''")

    def click(self, text: str) -> None:
        """Click on the innermost element with exactly this text."""
        self.until(
            f"""(() => {{
                const found = [...document.querySelectorAll('*')].filter(
                    each => each.innerText && each.innerText.trim() === {json.dumps(text)});
                const last = found.at(-1);
                if (last) last.click();
                return !!last;
            }})()"""
        )

    def photograph(self, file: Path) -> None:
        """Write what one sees as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browsing(program: str, profile: Path, *, width: int = 1400, height: int = 1000) -> Iterator[Page]:
    """A tab of a new Chromium. profile: an empty folder for what it keeps."""
    command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "--remote-debugging-port=0"]
    with subprocess.Popen([*command, "about:blank"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next((line for line in process.stderr if line.startswith(_READY)), "")
            host = line.removeprefix(f"{_READY}ws://").partition("/")[0]
            assert host, "Chromium ended before it listened"
            with urllib.request.urlopen(f"http://{host}/json/list", timeout=_WAIT_S) as answer:
                tabs = json.load(answer)
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            with connect(address, max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(_WAIT_S)
