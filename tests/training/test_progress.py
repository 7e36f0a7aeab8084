"""What one sees on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from eigenformer.cli import main
from eigenformer.reporting import shown
from tests.training.samples import SMALL, molecule_rows, write_table


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_the_bar_fits_a_terminal_and_leaves_whole_lines(table, tmp_path):
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "eigenformer", "train", str(table), "--target", "weight"]
    with subprocess.Popen(
        [*command, "--out", "run", *SMALL, "--batch-size", "2"],
        cwd=tmp_path,
        stdout=slave,
        stderr=slave,
        close_fds=True,
    ) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            output += part
    os.close(master)
    assert process.returncode == 0
    drawn = [text for text in re.split(r"[\r\n]+", output.decode()) if "|" in text]
    bars = [text for text in drawn if "loss" in text]
    assert bars
    for bar in bars:
        assert len(bar) <= 80
        assert re.search(r"epoch \d/3  loss [\d.]+, lr \S+, \d+ graphs/s, \d:\d\d:\d\d left", bar)
    # An epoch's line begins where the bar was wiped away.
    lines = re.findall(r"(?:^|[\r\n])(epoch \d/3  train loss [^\r\n|]*left)\r?\n", output.decode())
    assert len(lines) == 3


def test_small_targets_have_digits(tmp_path, capsys):
    """Concentrations of 1e-7 are learned as well as others, but were shown as 0.0000."""
    rows = [{**row, "weight": float(str(row["weight"])) * 1e-7} for row in molecule_rows()]
    table, out = write_table(tmp_path / "t.csv", rows), str(tmp_path / "run")
    assert main(["train", str(table), "--target", "weight", "--out", out, *SMALL]) == 0
    assert main(["evaluate", out]) == 0
    assert main(["runs", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"epoch 1/3 .* mae \d[.\d]*e-07", text)
    assert re.search(r"test mae \d[.\d]*e-07", text)
    assert "mae 0.0000" not in text
    assert [shown(value) for value in (0.0, 0.00123456, 1.5)] == ["0.0000", "0.0012", "1.5000"]


def test_a_target_without_values_in_a_split_is_named(tmp_path, capsys):
    rows = [
        {**row, "split": split, "other": row["weight"] if split == "train" else ""}
        for number, row in enumerate(molecule_rows())
        for split in [("train", "train", "val", "test")[number % 4]]
    ]
    table, out = write_table(tmp_path / "t.csv", rows), str(tmp_path / "run")
    command = ["train", str(table), "--target", "weight", "other", "--split-column", "split"]
    assert main([*command, "--out", out, *SMALL, "--epochs", "1"]) == 0
    told = capsys.readouterr().err
    for split in ("val", "test"):
        assert f"in the split '{split}', 'other' has no values" in told
