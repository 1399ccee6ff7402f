"""Makes the pictures of docs/view.md: each panel of the page of a run, wide and light, narrow and dark.

Usage: pictures.py URL CHROMIUM FOLDER, with the address of `taskscope view` over a run of examples/four-ranks in which one rank
hangs, and docs/pictures as FOLDER. The browser test leaves pictures of 1,024 ranks in target/tmp/page.
"""

import sys
import time

from playwright.sync_api import sync_playwright

LOOKS = ((1280, "light"), (390, "dark"))
PANELS = {"verdict": "#verdict", "time": "section[aria-labelledby=time-title]", "ranks": "section[aria-labelledby=ranks-title]",
          "stacks": "section[aria-labelledby=stacks-title]", "processes": "section[aria-label=Processes]",
          "waits": "section[aria-label='Who waits for whom']"}
IS_WHOLE = "!document.querySelector('[aria-busy]') && !document.body.innerText.includes('being read') && !document.body.innerText.includes('reading…')"


def main():
    url, chromium, folder = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width, scheme in LOOKS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(url)
            page.wait_for_selector("#ranks table", timeout=60_000)
            while not page.evaluate(IS_WHOLE):
                time.sleep(0.1)
            for name, selector in PANELS.items():
                page.locator(selector).screenshot(path=f"{folder}/{name}-{width}.png")
        browser.close()


main()
