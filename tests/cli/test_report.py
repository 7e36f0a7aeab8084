"""``eigenformer report``, end to end."""

from __future__ import annotations

import shutil

from eigenformer.cli import main


def test_a_page_for_a_run(run, tmp_path, capsys):
    out = tmp_path / "pages" / "report.html"
    assert main(["report", str(run), "--out", str(out), "--examples", "1"]) == 0
    assert f"run: {out}" in capsys.readouterr().out
    page = out.read_text("utf-8")
    assert page.count('<figure class="example">') == 1
    assert "<h1>run</h1>" in page


def test_what_is_missing_is_told_but_no_obstacle(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "model.safetensors").unlink()
    assert main(["report", str(tmp_path / "copy"), "--out", str(tmp_path / "r.html")]) == 0
    assert "without filters: " in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 2
    assert "not a run folder" in capsys.readouterr().err
