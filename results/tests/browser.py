"""Drives headless Chromium over its DevTools protocol, through a pair of pipes: no library is needed, and no port is opened."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `messages` has what its console and its errors said."""

    def __init__(self, timeout=60):
        self.timeout, self.messages, self._count, self._rest = timeout, [], 0, b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # It reads commands from descriptor 3 and writes answers to 4.
        command = [
            "bash",
            "-c",
            f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}',
            "browser",
            find(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            f"--user-data-dir={self._profile.name}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._in, False)
        target = next(one for one in self._until_page() if one["type"] == "page")
        self._session = self._call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}, None)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _until_page(self):
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            targets = self._call("Target.getTargets", {}, None)["targetInfos"]
            if any(one["type"] == "page" for one in targets):
                return targets
            time.sleep(0.05)
        raise TimeoutError("the browser opened no page")

    def call(self, method, **parameters):
        return self._call(method, parameters, self._session)

    def _call(self, method, parameters, session):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while True:
            answer = self._read(end)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _read(self, end):
        while b"\0" not in self._rest:
            try:
                part = os.read(self._in, 1 << 20)
                if not part:
                    raise RuntimeError("the browser ended")
                self._rest += part
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError("the browser did not answer") from None
                time.sleep(0.005)
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled":
            self.messages.append(
                " ".join(str(one.get("value", one.get("description", ""))) for one in parameters["args"])
            )
        if event.get("method") == "Runtime.exceptionThrown":
            self.messages.append(parameters["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if event.get("method") == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        if event.get("method") == "Page.javascriptDialogOpening":
            self.messages.append(f"a dialog: {parameters.get('message', '')}")
            self._count += 1
            os.write(
                self._out,
                json.dumps(
                    {
                        "id": self._count,
                        "method": "Page.handleJavaScriptDialog",
                        "params": {"accept": True},
                        "sessionId": self._session,
                    }
                ).encode()
                + b"\0",
            )

    def show(self, path, width=1280, height=900, dark=False, media=""):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def wait(self, condition):
        end = time.monotonic() + self.timeout
        while not self.eval(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def eval(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def press(self, key):
        text = {"Enter": "\r", "Escape": "", "Tab": ""}.get(key, key)
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            key=key,
            text=text,
            windowsVirtualKeyCode={"Enter": 13, "Escape": 27, "Tab": 9}.get(key, ord(key[0].upper())),
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def photograph(self, path, selector=None):
        """A picture of the element, or of what is to be seen."""
        options = {}
        if selector:
            x, y, width, height = self.eval(
                f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                "return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()"
            )
            options = {
                "clip": {"x": x, "y": y, "width": width, "height": min(height, 8000), "scale": 1},
                "captureBeyondViewport": True,
            }
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))

    def print(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def close(self):
        try:
            self._call("Browser.close", {}, None)
            self._process.wait(10)
        except (RuntimeError, TimeoutError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
