"""The command line: a table of commands, each a module that is imported when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from eigenformer import __version__

# command: what it does; its module has `add_arguments(parser)` and `run(arguments)`.
_COMMANDS = {
    "bench": "measure time and memory, side by side with other graph networks",
    "data": "prepare the benchmarks and your own graphs, and see what is there",
    "doctor": "say which attention path is active and why, and check it",
    "presets": "list the paper's models: sizes, parameters, the paper's count",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(
        prog="eigenformer", description="Graph transformers without positional encodings."
    )
    parser.add_argument("--version", action="version", version=f"eigenformer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name in argv[:1]:
            module = import_module(f"eigenformer.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except ValueError as error:
        print(f"eigenformer {arguments.command}: {error}", file=sys.stderr)
        return 2
