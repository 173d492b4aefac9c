"""A real browser without a window, spoken to over two pipes in its own protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIMIT_S = 60 * float(os.environ.get("TMUXMCP_TEST_SLOW", "1"))


class Page:
    """One page of a browser."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers, self._read, self._number = to, answers, b"", 0
        self._session: str | None = None
        self._events: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints: list[str] = []
        """Errors that the browser told of since then: exceptions, what it refused, what was logged as one."""
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Have the browser do something, and give its answer."""
        self._number += 1
        self._events.clear()
        request = {"id": self._number, "method": method, "params": params}
        request |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            pass
        assert "error" not in message, message
        return message["result"]

    def wait(self, event: str) -> None:
        """Wait until the browser tells of an event, or has done so since the last call began."""
        while event not in self._events:
            self._message()

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + LIMIT_S
        while b"\0" not in self._read:
            assert select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))[0], "no answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser is gone"
            self._read += data
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._events.add(message.get("method", ""))
        told = message.get("params", {})
        if (
            message.get("method") == "Runtime.exceptionThrown"
            or told.get("entry", {}).get("level") == "error"
            or (message.get("method") == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"))
        ):
            self.complaints.append(text.decode())
        return message

    def open(self, file: Path) -> None:
        """Show a file."""
        self.call("Page.navigate", url=file.as_uri())
        self.wait("Page.loadEventFired")

    def go(self, url: str) -> None:
        """Show an address."""
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def until(self, expression: str) -> None:
        """Wait until some JavaScript gives something true."""
        deadline = time.monotonic() + LIMIT_S
        while not self.value(expression):
            assert time.monotonic() < deadline, (expression, self.value("document.body.innerText"))
            time.sleep(0.05)  # the browser, too, is to have the processor

    def value(self, expression: str) -> Any:
        """What some JavaScript gives."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def picture(self, width: int, height: int) -> bytes:
        """A PNG of the left upper corner."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])


@contextmanager
def page() -> Iterator[Page]:
    """A browser with one page; it is gone afterwards."""
    assert CHROMIUM
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as home:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        browser = subprocess.Popen(
            ["/bin/bash", "-c", script, CHROMIUM, *flags, "--remote-debugging-pipe", f"--user-data-dir={home}"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"HOME": home, "PATH": os.environ["PATH"]},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            shown = Page(ours_out, ours_in)
            yield shown
            with suppress(AssertionError, OSError):
                shown._session = None
                shown.call("Browser.close")
            browser.wait(LIMIT_S)
        finally:
            browser.kill()
            browser.wait()
            os.close(ours_out)
            os.close(ours_in)
