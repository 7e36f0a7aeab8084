"""What one sees on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.training.samples import SMALL


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
