"""The command line: a table of commands. A command's module is imported when it is called."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper

from eigenformer import __version__
from eigenformer.cli.parser import Parser
from eigenformer.nearest import unknown
from eigenformer.stopping import STOPPED, StopSignals, stopped_in_time

# Each command and what it does. Its module has `add_arguments(parser)` and `run(arguments)`.
_COMMANDS = {
    "train": "train a model on a benchmark or on your own data, or continue a run",
    "evaluate": "compute the metrics of a trained model on train, val or test",
    "predict": "predict for new molecules or graphs with a trained model",
    "embed": "write the embeddings of molecules, graphs or nodes, to use them elsewhere",
    "explain": "write a page about one graph: where each head looks, and what contributes",
    "serve": "predict for molecules on a local web page, and through a JSON API",
    "export": "write a trained model as a program that runs without this package",
    "push": "share a trained model on the Hugging Face hub, or in a folder",
    "pull": "take over a model from the Hugging Face hub, or from a folder",
    "report": "write a page about one run: curves, the paper's results, filters, largest errors",
    "diagnose": "show why a model learns or does not: attention entropy, gradients, batch norms",
    "runs": "list the runs in a folder",
    "reproduce": "train a preset's full schedule with several seeds and compare with the paper",
    "ablate": "repeat a training with one thing changed: frequencies, degree scaler or parts",
    "compare": "train several networks on one dataset with equal effort, and rank them",
    "search": "search for good settings on a dataset, with Optuna",
    "table": "print the paper's result tables together with the runs in a folder",
    "figures": "draw the paper's figures from a run, a dataset, a graph or a preset",
    "demo": "train and compare networks on generated graphs: no download, a few minutes",
    "bench": "measure time and memory, compared with other graph networks",
    "data": "prepare benchmarks or your own graphs, and list what is prepared",
    "doctor": "show which attention backend is active and why, and check it",
    "presets": "list the paper's models and other networks: sizes, parameters, published figures",
}
# How often a thread of GNU's OpenMP polls for work before it sleeps, unless the user sets it. This
# is enough to be awake for the next operator. The default, 300,000, takes time from busy threads.
_SPINS = "10000"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    name = argv[0] if argv and argv[0] in _COMMANDS else ""
    stopped = f"eigenformer {name}".rstrip() + ": stopped"
    with stopped_in_time(stopped) as stop:
        try:
            return _run(argv, stop)
        except KeyboardInterrupt:
            print(stopped, file=sys.stderr)
            return STOPPED


def program() -> None:
    """Runs the command line as a process of its own."""
    code = main()
    for number in (signal.SIGINT, signal.SIGTERM):  # there is nothing left to stop
        signal.signal(number, signal.SIG_IGN)
    if code == STOPPED:
        # At once: threads of libraries may work on, and Python itself would end with a signal
        # instead of a code if `exec` was interrupted, as it often is during imports.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _run(argv: list[str], stop: StopSignals) -> int:
    if "OMP_WAIT_POLICY" not in os.environ:  # read later, when PyTorch is loaded
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may be unable to show φ
        sys.stdout.reconfigure(errors="replace")
    parser = Parser(
        prog="eigenformer", description="Graph transformers without positional encodings."
    )
    parser.add_argument("--version", action="version", version=f"eigenformer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    if argv and not argv[0].startswith("-") and argv[0] not in _COMMANDS:
        parser.error(unknown(f"command '{argv[0]}'", argv[0], _COMMANDS))
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name in argv[:1]:
            module = import_module(f"eigenformer.cli.{name}")
            module.add_arguments(command)
            # Only for its help text: "--debug" is accepted anywhere, also after a subcommand.
            command.add_argument("--debug", action="store_true", help="show tracebacks")
            command.set_defaults(run=module.run)
    for text in argv:
        if not _is_text(text):
            parser.error(f"{text!r}: not valid UTF-8; rename the file or folder")
    debug = "--debug" in argv
    arguments, rest = parser.parse_known_args([text for text in argv if text != "--debug"])
    if rest:
        return _fail(arguments, commands.choices[arguments.command].explain(rest), 2)
    try:
        return int(arguments.run(arguments) or 0)
    except BrokenPipeError:  # the reader of our output is gone, as with | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if stop.asked and not _stopped(error):  # an import that is interrupted raises anything
            raise KeyboardInterrupt from error
        if debug:
            raise
        return _fail(arguments, _message(error), STOPPED if _stopped(error) else 2)


def _is_text(argument: str) -> bool:
    """Whether an argument is valid UTF-8. Python marks all other bytes as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def _fail(arguments: argparse.Namespace, message: str, code: int) -> int:
    print(f"eigenformer {arguments.command}: {message}", file=sys.stderr)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''}: {error.strerror}".lstrip(": ")
    if isinstance(error, ValueError | ImportError) or _stopped(error):
        return str(error)
    return f"{type(error).__name__}: {error} (use --debug for the traceback)"


def _stopped(error: Exception) -> bool:
    return type(error).__name__ == "Interrupted"
