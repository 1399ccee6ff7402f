"""Looks at pages in a headless Chromium as a person would; prints what is wrong, and ends with 1 where something is.

Usage: browser.py URL CHROMIUM SHOTS: pictures of the run's page at two widths are put into the folder SHOTS.
"""

import http.server
import pathlib
import sys
import threading
import time

import axe_playwright_python
from playwright.sync_api import sync_playwright

AXE = next(pathlib.Path(axe_playwright_python.__file__).parent.glob("axe*.js")).read_text()
LOOKS = ((1280, "light"), (390, "dark"))
PATIENCE_MS = 240_000
# Within the page: how long moving to another instant takes until the picture has followed.
SCRUB = """async () => {
  const slider = document.getElementById("instant"), times = [];
  for (let step = 0; step < 20; step += 1) {
    const begun = performance.now();
    slider.value = String(Math.round(slider.max * step / 20));
    slider.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - begun);
  }
  return times.sort((one, other) => one - other)[10];
}"""


# How many dots of the newest instant are as loud as one elsewhere than most, and how many there are.
LOUD = """() => {
  const canvas = document.querySelector("#ranks canvas");
  const dots = canvas.getContext("2d").getImageData(canvas.width - 1, 0, 1, canvas.height).data;
  let loud = 0;
  for (let at = 0; at < dots.length; at += 4) loud += dots[at] >= 200 && dots[at + 1] <= 90 && dots[at + 2] <= 100;
  return [loud, canvas.height];
}"""


def serious(page):
    page.evaluate(AXE)
    found = page.evaluate("axe.run()")["violations"]
    return [f"{it['id']}: {it['nodes'][0]['html'][:200]}" for it in found if it["impact"] in ("serious", "critical")]


def look(context, url, path, wait_for, problems):
    page = context.new_page()
    page.on("console", lambda it: problems.append(f"{path} console: {it.text}") if it.type == "error" else None)
    page.on("pageerror", lambda it: problems.append(f"{path} error: {it}"))
    page.on("request", lambda it: it.url.startswith(url) or problems.append(f"{path} asks elsewhere: {it.url}"))
    page.goto(url + path)
    page.wait_for_selector(wait_for, timeout=PATIENCE_MS)
    page.wait_for_selector("[aria-busy]", state="detached", timeout=PATIENCE_MS)
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        problems.append(f"{path} is {wide} pixels too wide at {context.pages[0].viewport_size['width']}")
    problems.extend(f"{path} axe {it}" for it in serious(page))
    return page


def of_run(context, url, problems, shots, width):
    page = look(context, url, "", "#ranks table", problems)
    # Not `wait_for_function`, which evaluates text within the page: its policy forbids that.
    end = time.monotonic() + PATIENCE_MS / 1000
    while "still being read" in page.inner_text("body") and time.monotonic() < end:
        time.sleep(0.05)
    text = page.inner_text("main")
    for words in ("rank-behind", "load_batch", "Who waits for whom"):
        if words not in text:
            problems.append(f"the page does not say `{words}`")
    page.screenshot(path=f"{shots}/run-{width}.png", full_page=True)
    print(f"moved to another instant in {page.evaluate(SCRUB):.1f} ms (median)")
    before = page.inner_text("#as-of")
    page.keyboard.press("ArrowRight")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowLeft")
    if page.inner_text("#as-of") == before and "at=" not in page.url:
        problems.append("the arrow keys move nothing")
    if page.locator("#ranks .odd").count() == 0:
        page.click("#newest")
    page.wait_for_selector("#ranks .odd", timeout=PATIENCE_MS)
    page.click("#newest")
    loud, dots = page.evaluate(LOUD)
    if (loud, dots) != (1, 512):
        problems.append(f"of 1024 ranks, {loud} of {dots} dots are loud")
    page.select_option("#shape", "node")
    label = page.get_attribute("#ranks canvas", "aria-label")
    if "1024 ranks on 16 nodes, 1 of them elsewhere" not in label:
        problems.append(f"by node, the ranks are `{label}`")
    page.locator("section[aria-labelledby=ranks-title]").screenshot(path=f"{shots}/nodes-{width}.png")
    page.select_option("#shape", "time")
    page.wait_for_selector(".processes a", timeout=PATIENCE_MS)
    stays(page, problems)
    comes_back(page, problems)
    return page.locator(".processes a").first.get_attribute("href")


def stays(page, problems):
    """What is unfolded, scrolled to and focused stays so at another instant."""
    page.locator("#verdict summary").first.click()
    table = page.locator(".tall").first
    table.evaluate("it => it.scrollTo(0, 50)")
    link = page.locator(".processes a").nth(3)
    link.focus()
    before = link.inner_text()
    page.evaluate("document.addEventListener('part', (event) => { if (event.target.dataset.part === 'processes') window.is_followed = true; })")
    page.keyboard.press("ArrowLeft")
    end = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate("window.is_followed") and time.monotonic() < end:
        time.sleep(0.02)
    page.wait_for_selector("[aria-busy]", state="detached", timeout=PATIENCE_MS)
    if not page.locator("#verdict details").first.evaluate("it => it.open"):
        problems.append("what was unfolded is folded at another instant")
    if table.evaluate("it => it.scrollTop") != 50:
        problems.append("what was scrolled to is not in sight at another instant")
    if page.evaluate("document.activeElement.innerText") != before:
        problems.append("what had the focus has lost it at another instant")
    page.click("#newest")


def comes_back(page, problems):
    """A part that could not be had is there again, also where it is as it was."""
    page.wait_for_selector("[aria-busy]", state="detached", timeout=PATIENCE_MS)
    part, known = page.locator("[data-part=ipc]"), len(problems)
    words = part.inner_text()
    page.route("**/part/ipc*", lambda route: route.abort())
    for is_had in (False, True):
        if is_had:
            page.unroute("**/part/ipc*")
        else:
            page.click("#newest")
        end = time.monotonic() + PATIENCE_MS / 1000
        while (part.inner_text() == words) != is_had and time.monotonic() < end:
            time.sleep(0.05)
        if (part.inner_text() == words) != is_had:
            problems.append(f"a part that comes back is `{part.inner_text()}`, and was `{words}`")
    # What was refused is an error on the console.
    problems[known:] = [it for it in problems[known:] if "ERR_FAILED" not in it]


def from_elsewhere(context, url, problems):
    """Another page of the same browser gets nothing, also one that knows the address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = context.new_page()
        page.goto("http://127.0.0.1:%d/" % other.server_port)
        for mode in ("cors", "no-cors"):
            came = page.evaluate("([url, mode]) => fetch(url, { mode }).then(() => 'it came', () => 'refused')", [f"{url}api/v1/run", mode])
            if came != "refused":
                problems.append(f"another page asks with {mode}: {came}")
        other.shutdown()
        page.close()


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """An empty page at another port."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_):
        pass


def main():
    url, chromium, shots = sys.argv[1:]
    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width, scheme in LOOKS:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE_MS)
            process = of_run(context, url, problems, shots, width)
            look(context, url, process, "details.thread", problems)
            look(context, url, "runs", "table", problems)
            docs = look(context, url, "docs/causes.html", "article", problems)
            docs.fill("#search", "deadlock")
            docs.wait_for_selector("#found a", timeout=PATIENCE_MS)
            from_elsewhere(context, url, problems)
            context.close()
        browser.close()
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()
