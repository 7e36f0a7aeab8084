"""Pictures as files: the right form, the same bytes, the caption in them, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from eigenformer.plots import Picture, picture_bytes, save_picture
from eigenformer.plots.picture import new_picture

CAPTION = "Something with many words, which are more than one line of a narrow picture can hold."


def make() -> Picture:
    picture = new_picture(3.0, 1.5, CAPTION, layout="constrained")
    picture.body.subplots().plot([0, 1], [0, 1])
    return picture


@pytest.mark.parametrize(
    ("ending", "start"),
    [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG"), ("PNG", b"\x89")],
)
def test_the_ending_chooses_the_form(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / "new" / f"a.{ending}"
    save_picture(make(), path)
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_the_same_picture_gives_the_same_bytes(kind: str) -> None:
    content = picture_bytes(make(), kind)
    assert content == picture_bytes(make(), kind)
    assert b"dc:date" not in content
    assert b"CreationDate" not in content


def test_unknown_endings_name_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the ending 'svgg': unknown; the nearest is 'svg'"):
        save_picture(make(), tmp_path / "a.svgg")
    with pytest.raises(ValueError, match="the ending ''"):
        save_picture(make(), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_the_caption_is_below_and_in_the_metadata() -> None:
    picture = make()
    svg = picture_bytes(picture).decode()
    shown = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert "Something with many words, which are more" in "\n".join(shown)
    assert svg.count("Something with many") > 1  # as text, and whole in the metadata
    assert CAPTION in shown
    assert len(svg) > len(picture_bytes(picture, with_caption=False))


def test_without_the_caption_the_picture_is_as_high_as_was_asked() -> None:
    picture = make()

    def height(**options: bool) -> float:
        root = ElementTree.fromstring(picture_bytes(picture, **options).decode())
        return float(root.attrib["height"].removesuffix("pt"))

    assert height(with_caption=False) == pytest.approx(72 * 1.5, abs=0.2)
    assert height() > 72 * 1.5 + 20  # three lines
    assert height(with_caption=False) == pytest.approx(72 * 1.5, abs=0.2)


def test_letters_have_a_font_to_fall_back_to() -> None:
    svg = picture_bytes(make()).decode()
    assert svg.count("'DejaVu Sans', Verdana, sans-serif") == svg.count("DejaVu Sans") > 0


def test_lines_of_a_caption_fit_the_width() -> None:
    picture = make()
    (text,) = picture.figure.subfigs[1].texts
    assert " ".join(text.get_text().split("\n")) == CAPTION
    assert text.get_window_extent().x1 <= picture.figure.bbox.x1


def test_what_to_install_is_said_where_matplotlib_is_missing() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from eigenformer.cli import main\n"
        "sys.exit(main(['figures', 'training', 'nowhere']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "eigenformer figures: pictures need matplotlib: install it with  "
        "pip install 'eigenformer[plots]'\n"
    )
