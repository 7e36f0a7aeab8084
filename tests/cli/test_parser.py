from __future__ import annotations

import pytest

from eigenformer.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "run", "--splt", "val"], "--splt: unknown; the nearest is 'split'"),
        (["data", "prepare", "zinc", "--wokers=3"], "--wokers: unknown; the nearest is 'workers'"),
        (["train", "zinc", "--layers", "3"], "--layers: unknown; use --model.layers"),
        (["train", "--modle.layers", "3"], "the nearest is 'model'"),
        (["train", "zinc", "more"], "'more': unexpected argument"),
        (["data", "info", "zinc", "--size", "9"], "--size: an option of another subcommand"),
    ],
)
def test_unknown_arguments_are_named_with_the_nearest(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_unknown_command(capsys):
    with pytest.raises(SystemExit):
        main(["trian", "zinc"])
    assert "command 'trian': unknown; the nearest is 'train'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ablate", "frequencis", "zinc"], "what 'frequencis': unknown; the nearest is 'freq"),
        (["figures", "filter", "run"], "figure 'filter': unknown; the nearest is 'filters'"),
        (["ablate", "parts", "zinc", "--equal", "tim"], "'tim': unknown; the nearest is 'time'"),
    ],
)
def test_unknown_choices_are_named_with_the_nearest(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err
