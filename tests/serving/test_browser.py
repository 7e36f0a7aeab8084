"""The page in a real browser: what is typed or dropped is predicted, drawn, and only a text."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eigenformer.model_folder import save_model
from tests.serving.processes import serving
from tests.serving.samples import EVIL, card, tiny_model


@pytest.fixture(scope="module")
def address(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, trained = tmp_path_factory.mktemp("served"), tiny_model()
    save_model(folder / "tiny", trained.model, card(trained))
    with serving(folder / "tiny", "--threads", "1", cwd=folder) as (_, address):
        yield address


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page, open; nothing was said on the console."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(address)
    yield browser
    assert browser.get_log("browser") == []


def _find(browser: Any, selector: str) -> Any:
    return browser.find_elements("css selector", selector)


def _texts(browser: Any, selector: str) -> list[str]:
    """What elements show, read at one moment; the script may replace them at any other."""
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        r".map(element => element.innerText.trim().replace(/\n+/g, '\n'))"
    )
    return browser.execute_script(script, selector)


def _until(condition: Callable[[], Any]) -> Any:
    for _ in range(200):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("nothing happened")


def _predict(page: Any, *lines: str) -> list[str]:
    """The texts of all cards."""
    page.execute_script("document.getElementById('rows').replaceChildren()")
    page.execute_script("document.getElementById('smiles').value = arguments[0]", "\n".join(lines))
    _find(page, "#predict")[0].click()
    return _until(lambda: _texts(page, "#rows > li"))


def test_smiles_are_predicted_and_drawn(page: Any) -> None:
    cards = _predict(page, "CCO", "  ", "C1CC", "c1ccccc1O")
    assert len(cards) == 3
    assert cards[0].splitlines()[:2] == ["CCO", "logp"]
    assert "90 % interval" in cards[0]
    assert cards[1].splitlines() == ["C1CC", "'C1CC': invalid SMILES"]
    assert _texts(page, "#summary") == ["for 2 of 3 molecules"]
    wide = "return [...document.querySelectorAll('#rows img')].map(i => i.naturalWidth)"
    _until(lambda: all(page.execute_script(wide)))
    assert len(page.execute_script(wide)) == 2


def test_a_link_leads_to_the_heads(page: Any) -> None:
    _predict(page, "CC(=O)O")
    (link,) = _find(page, "#rows a.heads")
    assert link.text == "Where 1 × 8 heads look"
    page.get(link.get_attribute("href"))
    assert _texts(page, "h1") == ["CC(=O)O"]
    _find(page, ".stage .atom")[3].click()
    assert _texts(page, "#readout")[0].startswith("O3 looks")


def test_a_table_is_predicted(page: Any, tmp_path: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text("name,smiles\nethanol,CCO\nbad,C1\n")
    _find(page, "#file")[0].send_keys(str(table))
    cards = _until(lambda: _texts(page, "#rows > li"))
    assert [card.splitlines()[0] for card in cards] == ["CCO", "C1"]
    assert cards[1].splitlines()[-2:] == ["name", "bad"]
    assert _texts(page, "#rows .cells dd") == ["ethanol", "bad"]
    table.write_text("molecule\nCC\n")
    _find(page, "#file")[0].send_keys(str(table))
    assert "column 'smiles': unknown" in _until(lambda: _texts(page, "#problem")[0])
    page.get_log("browser")  # Chromium notes every answer with an error
    column = _find(page, "#column")[0]
    column.clear()
    column.send_keys("molecule")
    _find(page, "#file")[0].send_keys(str(table))
    _until(lambda: _texts(page, "#rows .smiles") == ["CC"])
    assert not _find(page, "#problem")[0].is_displayed()


def test_a_dropped_table_is_predicted(page: Any) -> None:
    page.execute_script(
        "const carried = new DataTransfer();"
        "carried.items.add(new File(['smiles\\nCCN\\n'], 'a.csv'));"
        "document.getElementById('drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: carried, bubbles: true, cancelable: true}))"
    )
    assert _until(lambda: _texts(page, "#rows .smiles")) == ["CCN"]


def test_hostile_texts_are_only_texts(page: Any, tmp_path: Path) -> None:
    title = page.title
    (card_text,) = _predict(page, EVIL)
    assert card_text.splitlines()[0] == EVIL
    table = tmp_path / "evil.csv"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["smiles", EVIL], ["CCO", EVIL], [EVIL, "javascript:alert(1)"]])
    _find(page, "#file")[0].send_keys(str(table))
    _until(lambda: len(_find(page, "#rows > li")) == 2)
    assert _texts(page, "#rows .cells dt") == [EVIL, EVIL]
    assert _texts(page, "#rows .cells dd") == [EVIL, "javascript:alert(1)"]
    _find(page, "#column")[0].send_keys(EVIL)
    _find(page, "#file")[0].send_keys(str(table))
    assert EVIL in _until(lambda: _texts(page, "#problem")[0])
    page.get_log("browser")
    images = [image.get_attribute("src") for image in _find(page, "img")]
    assert [source.rpartition("/")[2] for source in images] == ["picture?smiles=CCO"]
    time.sleep(0.2)
    assert page.title == title


def test_an_injected_script_would_not_run(page: Any) -> None:
    """Even if a text became HTML, the policy would stop it."""
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'document.title = 3';"
        "document.body.append(s); document.body.insertAdjacentHTML('beforeend', arguments[0])",
        EVIL,
    )
    time.sleep(0.2)
    assert page.title == "tiny · eigenformer"
    assert any("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


def test_many_rows_are_shown_in_pieces_and_downloaded_whole(page: Any, tmp_path: Path) -> None:
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    chains = ["C" * (1 + number % 20) for number in range(70)]
    assert len(_predict(page, *chains)) == 60
    _find(page, "#more")[0].click()
    assert len(_find(page, "#rows > li")) == 70
    assert not _find(page, "#more")[0].is_displayed()
    _find(page, "#download")[0].click()
    written = tmp_path / "predictions.csv"
    _until(lambda: written.exists() and written.stat().st_size)
    with written.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["smiles"] for row in rows] == chains
    assert all(float(row["predicted_logp"]) for row in rows)


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_screen(page: Any, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        _predict(page, "C" * 200, "x" * 200, EVIL)
        measured = "return document.documentElement.scrollWidth"
        assert page.execute_script(measured) <= width
        page.get(page.current_url + "docs")
        assert page.execute_script(measured) <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_asks_nobody_else(page: Any, address: str) -> None:
    _predict(page, "CCO")
    loaded = "return performance.getEntriesByType('resource').map(e => e.name)"
    names = page.execute_script(loaded)
    assert names
    assert all(name.startswith(address) for name in names), json.dumps(names)
