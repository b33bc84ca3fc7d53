"""Look at the site in a browser: python scripts/site_check.py --axe FILE [--shots FOLDER] [PAGE ...]

Every page of build/site (or the named ones) is opened in headless Chromium at 375 and 1280 pixels, in light and dark
colours. A fault is a message of the console that is an error, a violation that axe-core finds, a page that is wider
than the window, or something that Tab reaches and that shows no focus. FILE is axe.min.js of the npm package axe-core,
which is not part of this repository. `--shots` keeps a picture of each page.

Needs the extra `docs`, and a browser called chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import http.server
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

SITE = Path(__file__).resolve().parents[1] / "build" / "site"
WIDTHS, SCHEMES = (375, 1280), ("light", "dark")
TABS = 25
"""How often Tab is pressed on a page."""

CHROMIUM = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
]  # fmt: skip
AXE = """axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}).then(found =>
    found.violations.map(one => one.id + ': ' + one.nodes.slice(0, 3).map(node => node.target.join(' '))))"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOCUSED = """(() => {
    const part = document.activeElement
    if (!part || part === document.body) return ''
    const label = part.matches('.md-option') ? part.nextElementSibling : part  // an input is shown by its label
    const seen = getComputedStyle(label), box = label.getBoundingClientRect()
    const shown = (seen.outlineStyle !== 'none' && seen.outlineWidth !== '0px') || seen.boxShadow !== 'none'
        || part.matches('input')
    return part.tagName + '.' + part.className + ' ' + (part.getAttribute('href') || '')
        + (shown ? '' : ' shows no focus') + (box.width && box.height ? '' : ' has no size')
})()"""


class Tab:
    """A page of the browser, spoken to in the DevTools protocol."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.faults: list[str] = []

    async def call(self, method: str, **given: Any) -> dict[str, Any]:
        """The result of a command; what the console says meanwhile is kept."""
        number = next(self._numbers)
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": given}))
        while (said := await self._read()).get("id") != number:
            pass
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        found: dict[str, Any] = said["result"]
        return found

    async def until(self, event: str) -> None:
        """Wait for an event."""
        while (await self._read()).get("method") != event:
            pass

    async def value(self, code: str) -> Any:
        """The value of an expression of JavaScript."""
        found = await self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    async def _read(self) -> dict[str, Any]:
        text = await asyncio.wait_for(self._socket.read_message(), 120)
        if text is None:
            raise RuntimeError("the browser has gone")
        said: dict[str, Any] = json.loads(text)
        about = said.get("params", {})
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.faults.append(f"exception: {about['exceptionDetails'].get('text')}")
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "assert"):
                self.faults.append(f"console: {[one.get('value') for one in about['args']]}")
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.faults.append(f"log: {about['entry']['text']} {about['entry'].get('url', '')}")
        return said


@asynccontextmanager
async def browser() -> AsyncIterator[Tab]:
    """A tab of a new browser."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        started = subprocess.Popen(
            [*CHROMIUM, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.PIPE, text=True
        )
        try:
            assert started.stderr is not None
            where = next(line.split()[-1] for line in started.stderr if "DevTools listening on" in line)
            port = where.split("/")[2]
            with urllib.request.urlopen(f"http://{port}/json/list") as answer:
                page = next(one for one in json.load(answer) if one["type"] == "page")
            socket = await websocket_connect(page["webSocketDebuggerUrl"], max_message_size=2**27)
            tab = Tab(socket)
            for part in ("Page", "Runtime", "Log"):
                await tab.call(f"{part}.enable")
            yield tab
            socket.close()
        finally:
            started.terminate()
            started.wait()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written."""


async def look(pages: list[str], axe: str, shots: Path | None, *, half: bool = False) -> int:
    """Print the faults of pages, at all widths and in all colours, and count them."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = 0
    try:
        async with browser() as tab:
            ways = [(375, "dark"), (1280, "light")] if half else [*itertools.product(WIDTHS, SCHEMES)]
            for (width, scheme), page in itertools.product(ways, pages):
                for said in await faults_of(tab, f"http://127.0.0.1:{server.server_port}/{page}/", width, scheme, axe):
                    print(f"{page} at {width}, {scheme}: {said}", flush=True)
                    found += 1
                if shots is not None:
                    await picture(tab, shots / f"{page.replace('/', '-')}-{width}-{scheme}.png")
    finally:
        server.shutdown()
    return found


async def faults_of(tab: Tab, address: str, width: int, scheme: str, axe: str) -> list[str]:
    """What is wrong with a page."""
    tab.faults = []
    narrow = width < 600
    await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=narrow)
    media = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    await tab.call("Emulation.setEmulatedMedia", features=media)
    await tab.call("Page.navigate", url=address)
    await tab.until("Page.loadEventFired")
    await tab.call("Runtime.evaluate", expression=axe)
    await tab.value("new Promise(done => setTimeout(done, 200))")  # the page's own scripts change it
    wide = await tab.value(TOO_WIDE)
    found = [*tab.faults, *await tab.value(AXE), *([f"{wide} pixels too wide"] if wide > 0 else [])]
    reached = []
    for _ in range(TABS):
        for kind in ("keyDown", "keyUp"):
            await tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(await tab.value(FOCUSED))
    found += sorted({one for one in reached if one.endswith((" shows no focus", " has no size"))})
    if len({*reached} - {""}) < 3:
        found.append(f"Tab reaches {reached[:3]} alone")
    return found


async def picture(tab: Tab, path: Path) -> None:
    """Keep a picture of what the window shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shot = await tab.call("Page.captureScreenshot", format="png")
    path.write_bytes(base64.b64decode(shot["data"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--axe", type=Path, required=True)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--half", action="store_true", help="dark at 375 pixels and light at 1280 alone")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    given = parser.parse_args()
    every = sorted(str(path.parent.relative_to(SITE)) for path in SITE.rglob("index.html"))
    found = asyncio.run(look(given.pages or every, given.axe.read_text(), given.shots, half=given.half))
    print(f"{len(given.pages or every)} pages, {found} faults")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
