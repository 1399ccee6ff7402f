"""What a page is to a browser: how soon it is painted and whole, how fast it follows a moved instant, what memory it takes.

Usage: view_browser.py URL CHROMIUM LOADS SCRUBS. Prints one JSON object. Times are milliseconds by the browser's own clock. The floor
is a page of three words in the same fonts from a server of its own, in the same browser: no page is painted sooner.
"""

import http.server
import json
import re
import statistics
import sys
import threading
import time

from playwright.sync_api import sync_playwright

PATIENCE_MS = 180_000
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint")) done(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""
WHOLE = """() => !document.querySelector("[aria-busy]") && document.querySelector("#ranks table") && document.querySelector(".track")
  && !document.body.innerText.includes("still being read") && !document.body.innerText.includes("reading…")"""
# Moves the slider somewhere; tells when the picture has followed (two frames on) and when all parts have.
MOVE = """async (share) => {
  const slider = document.getElementById("instant");
  const left = new Set([...document.querySelectorAll("[data-part]")].map((it) => it.dataset.part));
  const parts = new Promise((done) => document.addEventListener("part", function come(event) {
    left.delete(event.target.dataset.part);
    if (left.size === 0) { document.removeEventListener("part", come); done(performance.now()); }
  }));
  const begun = performance.now();
  slider.value = String(Math.round(slider.max * share));
  slider.dispatchEvent(new Event("input"));
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const followed = performance.now();
  return [followed - begun, (await parts) - begun];
}"""


def memory(browser):
    """MiB of the processes that draw pages: PSS together, by the kernel."""
    session = browser.new_browser_cdp_session()
    pids = [it["id"] for it in session.send("SystemInfo.getProcessInfo")["processInfo"] if it["type"] == "renderer"]
    session.detach()
    total = 0
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid) as file:
            total += int(re.search(r"^Pss:\s+(\d+)", file.read(), re.M).group(1))
    return total / 1024


def load(browser, url):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url, wait_until="commit")
    paint = page.evaluate(PAINT)
    # Not `wait_for_function`, which evaluates text within the page: its policy forbids that.
    end = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(WHOLE):
        if time.monotonic() > end:
            raise SystemExit("the page is never whole:\n" + page.inner_text("body"))
        time.sleep(0.02)
    return context, page, paint, page.evaluate("performance.now()")


class Floor(http.server.BaseHTTPRequestHandler):
    """The least that a browser can be asked to paint."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>floor</title><style>body { font: 15px system-ui, sans-serif } code "
                         b"{ font-family: ui-monospace, monospace }</style><p>of <code>three</code> words")

    def log_message(self, *_):
        pass


def floor(browser, loads):
    """First paints of the least page; the first one has what a browser does once, such as looking for fonts."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Floor) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        paints = []
        for _ in range(loads):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto("http://127.0.0.1:%d/" % server.server_port, wait_until="commit")
            paints.append(page.evaluate(PAINT))
            context.close()
        server.shutdown()
    return paints


def spread(values):
    ordered = sorted(values)
    return {"median": round(statistics.median(ordered), 1), "most": round(ordered[-1], 1)}


def main():
    url, chromium, loads, scrubs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        # First, because what a browser does once is no part of any page.
        floors = floor(browser, loads + 1)
        paints, wholes = [], []
        for _ in range(loads):
            context, page, paint, whole = load(browser, url)
            paints.append(paint)
            wholes.append(whole)
            context.close()
        context, page, _, _ = load(browser, url)
        # Spread over the run, never where it was before.
        moved = [page.evaluate(MOVE, (number * 0.618) % 1) for number in range(1, scrubs + 1)]
        again = [page.evaluate(MOVE, (number * 0.618) % 1) for number in range(1, scrubs + 1)]
        mebibytes = memory(browser)
        heap = page.evaluate("performance.memory ? performance.memory.usedJSHeapSize / 1048576 : 0")
        browser.close()
    print(json.dumps({
        "floor_ms": spread(floors[1:]), "first_paint_ms": round(paints[0], 1), "paint_ms": spread(paints[1:] or paints), "whole_ms": spread(wholes),
        "scrub_ms": spread([it for it, _ in moved + again]), "parts_first_ms": spread([it for _, it in moved]),
        "parts_again_ms": spread([it for _, it in again]), "page_mib": round(mebibytes, 1), "heap_mib": round(heap, 1),
    }))


main()
