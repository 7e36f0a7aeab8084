"""Every Python snippet of the README and the docs runs, and every command of the README."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from eigenformer import targets
from eigenformer.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(targets, "KINDS", dict(targets.KINDS))  # a snippet adds one
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    namespace: dict[str, object] = {}
    for number, snippet in enumerate(snippets):
        code = compile(snippet, f"{page.name}[{number}]", "exec", dont_inherit=True)
        exec(code, namespace)
    if page.name == "README.md":
        assert namespace["attention"][0][0].shape == (8, 3, 3)  # type: ignore[index]
        assert namespace["nodes"].shape == (6, 72)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_file_and_folder_of_the_package_is_in_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`([\w./]+)`", text.partition("## Every file")[2]))
    package = ROOT / "src" / "eigenformer"
    there = {f"{path.name}/" for path in package.iterdir() if path.is_dir()}
    there |= {path.name for path in package.glob("*.py")}
    assert named >= there - {"__init__.py", "__main__.py", "__pycache__/"}
    for name in named - {"model.safetensors", "model.json"}:
        assert (package / name).exists(), name


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    """As they stand there, one after the other; those of make are run by the slow tests."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    blocks = re.findall(
        r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.S | re.M
    )
    commands = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    assert {command[0] for command in commands if command} == {"eigenformer", "make"}
    ours = [command[1:] for command in commands if command and command[0] == "eigenformer"]
    assert len(ours) > 5
    for command in ours:
        assert main(command) == 0, command
    assert len((tmp_path / "runs" / "predictions.csv").read_text().splitlines()) == 9
    assert "</html>" in (tmp_path / "runs" / "explain.html").read_text("utf-8")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_no_line_of_prose_scrolls(page):
    """Tables, their titles, code, pictures and the generated page may have longer lines."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M)
    long = [
        line
        for line in prose.splitlines()
        if len(line) > 100 and not line.startswith(("|", "!", "**Test"))
    ]
    assert not long or page.name == "settings.md"
