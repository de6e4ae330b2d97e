"""A headless Chromium driven over its debugging pipe: real clicks, keys, pictures, and nothing to install beside it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# pictures for people to look at; a pipeline may keep them
PICTURES = os.environ.get("SIMPLAX_TEST_PICTURES")
_QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_QUIET += ["--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage"]
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Backspace": (8, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    " ": (32, " "),
}


class Page:
    """One tab. Errors of its scripts are collected in `errors`, addresses it asked for in `requests`."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The answer to one command of the debugging protocol."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _read(self, seconds: float = 60) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._receive, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(said["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif event.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(said["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression, a promise awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """The value of an expression once it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; errors: {self.errors}")

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, selector: str) -> None:
        """A real click in the middle of the element."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{find}.scrollIntoView({{block: 'center'}})")
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({find}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, *keys: str) -> None:
        """Real keys, one after the other."""
        for key in keys:
            code, text = _KEYS.get(key, (ord(key.upper()) if len(key) == 1 else 0, key))
            down = "keyDown" if text else "rawKeyDown"
            for kind in (down, "keyUp"):
                words = {"text": text} if kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **words)

    def set(self, selector: str, value: str) -> None:
        """Give a field a value, as if it had been typed."""
        find = f"document.querySelector({json.dumps(selector)})"
        said = "e.dispatchEvent(new Event('input', {bubbles: true}))"
        self.run(f"(e => {{ e.value = {json.dumps(value)}; {said}; }})({find})")

    def files(self, selector: str, *paths: Path) -> None:
        """Choose files in a file field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def window(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def prefers(self, **features: str) -> None:
        """For instance `prefers(color_scheme="dark", reduced_motion="reduce")`."""
        named = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=named)

    def offline(self, off: bool) -> None:
        self.call(
            "Network.emulateNetworkConditions",
            offline=off,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def picture(self, path: Path) -> Path:
        """A picture of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))
        return path


def keep(page: Page, name: str) -> None:
    """A picture of the page as it is, where somebody asked for pictures."""
    if PICTURES:
        page.picture(Path(PICTURES) / f"{name}.png")


@contextmanager
def browse(folder: Path) -> Iterator[Page]:
    """A page of a new browser with an empty profile in `folder`."""
    to_read, to_send = os.pipe()
    from_read, from_send = os.pipe()

    def arrange() -> None:  # the browser reads commands from descriptor 3 and answers on 4
        # neither end may lie where the other one has to go
        source, target = os.dup(to_read), os.dup(from_send)
        high_source, high_target = 100, 101
        os.dup2(source, high_source)
        os.dup2(target, high_target)
        os.dup2(high_source, 3)
        os.dup2(high_target, 4)

    process = subprocess.Popen(
        [str(BROWSER), *_QUIET, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"],
        preexec_fn=arrange,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_send)
    try:
        yield Page(to_send, from_read)
    finally:
        os.close(to_send)
        os.close(from_read)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
