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


@pytest.fixture
def drawing(page: Any) -> Any:
    """The page with the editor open."""
    _find(page, ".draw summary")[0].click()
    page.execute_script("document.getElementById('canvas').scrollIntoView({block: 'center'})")
    return page


def _choose(page: Any, tool: str) -> None:
    _find(page, f'input[name="tool"][value="{tool}"]')[0].find_element("xpath", "..").click()


def _press(page: Any, x: int, y: int, *, to: tuple[int, int] | None = None) -> None:
    """Clicks at a place of the drawing, counted from its middle; or drags from it."""
    from selenium.webdriver import ActionChains

    actions = ActionChains(page, duration=0)
    actions.move_to_element_with_offset(_find(page, "#canvas")[0], x, y).click_and_hold()
    if to is not None:
        actions.move_to_element_with_offset(_find(page, "#canvas")[0], *to)
    actions.release().perform()


def _places(page: Any) -> list[tuple[int, int]]:
    """The atoms, as places from the middle of the drawing, in their order."""
    return page.execute_script(
        "const box = document.getElementById('canvas').getBoundingClientRect();"
        "return [...document.querySelectorAll('#canvas [data-atom] circle')].map((circle) => {"
        "  const b = circle.getBoundingClientRect();"
        "  return [Math.round(b.x + b.width / 2 - box.x - box.width / 2),"
        "          Math.round(b.y + b.height / 2 - box.y - box.height / 2)]; })"
    )


def _drawn(page: Any) -> str:
    """The molecule that is drawn, as RDKit writes it."""
    from rdkit.Chem import CanonSmiles

    return CanonSmiles(_texts(page, "#drawn")[0])


def _pull(page: Any, number: int, right: int, down: int) -> None:
    """Drags away from an atom: a new one is connected to it."""
    x, y = _places(page)[number]
    _press(page, x, y, to=(x + right, y + down))


def test_a_molecule_is_drawn_and_predicted(drawing: Any) -> None:
    """Paracetamol, with each of the tools."""
    page = drawing
    _choose(page, "arene")
    _press(page, -60, 20)
    assert _drawn(page) == "c1ccccc1"
    _choose(page, "N")
    _press(page, *_places(page)[0])  # changes the atom
    assert _drawn(page) == "c1ccncc1"
    _find(page, "#undo")[0].click()
    assert _drawn(page) == "c1ccccc1"
    _pull(page, 5, 50, -30)
    _choose(page, "C")
    _pull(page, 6, 50, 30)
    _press(page, *_places(page)[7])  # goes on from it
    assert _drawn(page) == "CCNc1ccccc1"
    _choose(page, "O")
    _pull(page, 7, 0, 60)
    _pull(page, 2, -50, 30)
    assert _drawn(page) == "CC(O)Nc1ccc(O)cc1"
    (x, y), (u, v) = _places(page)[7], _places(page)[9]
    _press(page, (x + u) // 2, (y + v) // 2)  # a double bond
    assert _drawn(page) == "CC(=O)Nc1ccc(O)cc1"
    _find(page, "#use-drawing")[0].click()
    (text,) = _until(lambda: _texts(page, "#rows > li"))
    assert "90 % interval" in text
    assert _find(page, "#smiles")[0].get_attribute("value") == _texts(page, "#drawn")[0]


def test_rings_are_closed_and_atoms_erased(drawing: Any) -> None:
    page = drawing
    for tool, middle in (("ring", -70), ("arene", 70)):
        _choose(page, tool)
        _press(page, middle, 0)
    assert _drawn(page) == "C1CCCCC1.c1ccccc1"
    places = _places(page)
    right = max(range(6), key=lambda atom: places[atom][0])
    left = min(range(6, 12), key=lambda atom: places[atom][0])
    _press(page, *places[right], to=places[left])
    assert _drawn(page) == "c1ccc(C2CCCCC2)cc1"
    _choose(page, "arene")
    _press(page, *_places(page)[0])  # a ring beside the atom
    assert len(_places(page)) == 18
    assert "." not in _drawn(page)
    _find(page, "#undo")[0].click()
    _choose(page, "erase")
    _press(page, *_places(page)[right])
    assert _drawn(page) == "CCCCC.c1ccccc1"
    _find(page, "#clear")[0].click()
    assert _texts(page, "#drawn") == ["Click to place an atom."]
    assert not _find(page, "#use-drawing")[0].is_enabled()


def test_a_molecule_is_drawn_with_the_keyboard(drawing: Any) -> None:
    from selenium.webdriver import Keys

    page = drawing

    def keys(*pressed: str) -> None:
        page.switch_to.active_element.send_keys(*pressed)

    page.execute_script("document.getElementById('canvas').focus()")
    keys(Keys.ENTER, Keys.TAB, Keys.ENTER, Keys.ENTER, "o", Keys.ENTER)
    assert _drawn(page) == "COC"
    keys(Keys.DELETE)
    assert _drawn(page) == "C.C"
    page.execute_script("document.getElementById('canvas').focus()")
    keys(Keys.CONTROL, "z")
    assert _drawn(page) == "COC"


def test_a_drawing_has_limits(drawing: Any) -> None:
    page = drawing
    _choose(page, "ring")
    press = (
        "const canvas = document.getElementById('canvas'), box = canvas.getBoundingClientRect();"
        "for (const type of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent("
        "type, {bubbles: true, clientX: box.x + arguments[0], clientY: box.y + arguments[1]}))"
    )
    for number in range(40):
        page.execute_script(press, 12 + 33 * (number % 9), 12 + 45 * (number // 9))
    assert _texts(page, "#drawn") == ["At most 200 atoms can be drawn."]
    assert len(_places(page)) <= 200


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
