"""Debian's chromium, driven as a person would, with an eye on every request that a page makes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,700",
)


class Browser:
    """One tab of a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.requests: list[str] = []

    def open(self, address: str) -> None:
        self.driver.get(address)
        self.wait(lambda: self.run("return document.documentElement.dataset.painted"), "the page paints")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page."""
        return self.driver.execute_script(script, *arguments)

    def text(self, id_: str) -> str:
        """The text of an element."""
        return self.driver.find_element("id", id_).text

    def wait(self, holds: Callable[[], Any], what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain until {what}"
            time.sleep(0.1)

    def asked(self) -> set[str]:
        """The addresses that the browser has asked for, without what stands after `?` and `#`."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return {url.partition("#")[0].partition("?")[0] for url in self.requests}

    def complaints(self) -> list[str]:
        """What the browser's console has to complain of."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def pixels(self) -> dict[str, int]:
        """How many points of the map have each colour, as `r,g,b`; fully painted ones only."""
        return self.run("""
            const map = document.getElementById("map");
            const data = map.getContext("2d").getImageData(0, 0, map.width, map.height).data, found = {};
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) {
              const name = data[i] + "," + data[i + 1] + "," + data[i + 2];
              found[name] = (found[name] ?? 0) + 1;
            }
            return found;""")


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in `folder`, which is closed at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
