"""The pages in a real browser: they open without complaint, and answer to clicks and keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eigenformer.analysis.explanation import Explanation, explain
from eigenformer.analysis.run_report import report_run
from eigenformer.pages import explain_page, report_page, save_page
from eigenformer.trained_model import TrainedModel

_COLOURS = "return [...document.querySelectorAll('.stage circle')].map(c => c.style.fill)"
_HEADS = "return [...document.querySelectorAll('#heads canvas')].map(c => c.toDataURL())"


def _open(browser: Any, path: Path) -> None:
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(path.resolve().as_uri())


def _explanation(run: Path, name: str) -> Explanation:
    """A molecule whose heads look at different places, as those of a trained model would."""
    found = explain(TrainedModel.open(run), "CC(=O)Nc1ccc(O)cc1")
    attention = (4 * torch.randn(found.attention.shape)).softmax(-1).numpy()
    return replace(found, attention=attention, view=replace(found.view, name=name))


def _find(browser: Any, selector: str) -> Any:
    return browser.find_elements("css selector", selector)


@pytest.fixture
def page(browser: Any, run: Path, tmp_path: Path) -> Any:
    """The explanation of a molecule, open; nothing was said on the console."""
    save_page(explain_page(_explanation(run, "paracetamol")), tmp_path / "page.html")
    _open(browser, tmp_path / "page.html")
    yield browser
    assert browser.get_log("browser") == []


def test_choosing_an_atom_changes_every_picture(page: Any) -> None:
    colours, heads = page.execute_script(_COLOURS), page.execute_script(_HEADS)
    assert len(colours) == 11
    assert len(heads) == 8
    atom = _find(page, ".stage .atom")[3]
    atom.click()
    assert atom.get_attribute("aria-pressed") == "true"
    assert page.execute_script(_COLOURS) != colours
    assert all(new != old for new, old in zip(page.execute_script(_HEADS), heads, strict=True))
    assert _find(page, "#readout")[0].text.startswith("N3 looks")
    atom.click()
    assert page.execute_script(_COLOURS) == colours


def test_choosing_a_head_changes_the_picture(page: Any) -> None:
    _find(page, ".stage .atom")[0].click()
    colours, curve = page.execute_script(_COLOURS), _find(page, ".curve")[0].get_attribute("d")
    button = _find(page, "#heads button")[5]
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert _find(page, "#picture-title")[0].text == "Layer 0, head 5"
    assert page.execute_script(_COLOURS) != colours
    assert _find(page, ".curve")[0].get_attribute("d") != curve


def test_the_keyboard_does_it_all(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    before = page.execute_script(_COLOURS)
    page.execute_script("document.querySelector('.stage .atom').focus()")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert _find(page, "#overview-from")[0].text == "from C0"
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert _find(page, "#overview-from")[0].text == "from C1"
    page.execute_script("document.querySelector('#heads [tabindex=\"0\"]').focus()")
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert _find(page, "#picture-title")[0].text == "Layer 0, head 1"
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT, Keys.ESCAPE)
    assert page.execute_script(_COLOURS) == before


def test_a_frequency_shows_its_eigenvector(page: Any) -> None:
    before = page.execute_script(_COLOURS)
    page.execute_script(
        "const slider = document.getElementById('frequency');"
        "slider.value = 1; slider.dispatchEvent(new Event('input'))"
    )
    assert _find(page, "#picture-title")[0].text.startswith("Eigenvector of λ = 0.")
    assert page.execute_script(_COLOURS) != before
    _find(page, "#heads button")[0].click()
    assert page.execute_script(_COLOURS) == before


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_screen(page: Any, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_and_light_are_different(page: Any) -> None:
    def colours(scheme: str) -> list[str]:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        page.refresh()
        return page.execute_script(_COLOURS)

    assert colours("dark") != colours("light")


def test_a_hostile_name_is_only_a_name(browser: Any, run: Path, tmp_path: Path) -> None:
    name = '</script><img src="x" onerror="document.title=1"><script>document.title=2</script>'
    save_page(explain_page(_explanation(run, name)), tmp_path / "page.html")
    _open(browser, tmp_path / "page.html")
    assert browser.title.startswith(name)
    assert _find(browser, "h1")[0].text == name
    assert not _find(browser, "img")
    assert browser.get_log("browser") == []


def test_a_report_opens_without_complaint(browser: Any, run: Path, tmp_path: Path) -> None:
    save_page(report_page(report_run(run, examples=2)), tmp_path / "report.html")
    _open(browser, tmp_path / "report.html")
    assert browser.title == "run · eigenformer"
    assert all(chart.size["height"] > 100 for chart in _find(browser, "svg.chart"))
    settings = _find(browser, "pre")[0]
    assert not settings.is_displayed()
    _find(browser, "summary")[0].click()
    assert "phi_width: 4" in settings.text
    assert browser.get_log("browser") == []
