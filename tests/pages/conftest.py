"""Pages are made from the same small run as training makes, and opened in a real browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.training.conftest import _one_thread, cache_dir, run, table  # noqa: F401

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1200,1000",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window; tests that need it are skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs a browser: install Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield window
        finally:
            window.quit()
