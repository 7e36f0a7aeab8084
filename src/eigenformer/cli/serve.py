"""``eigenformer serve``: a local web page and a JSON API for a trained model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eigenformer.cli.settings import add_device, add_limits, positive, set_threads, share

# Enough for peptides, and few enough for a pass of the network to take seconds.
_ATOMS = "atoms=500"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the address, and what predictions contain."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="port, or 0 for any free one (default: 8000)"
    )
    parser.add_argument(
        "--interval",
        type=share,
        metavar="LEVEL",
        help="level of the intervals (default: 0.9, if the model was calibrated)",
    )
    parser.add_argument(
        "--novelty",
        action="store_true",
        help="also say how unlike the training set each molecule is, from 0 to 1",
    )
    parser.add_argument("--threads", type=positive, help="PyTorch threads")
    add_device(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> None:
    """Serves the model until it is told to stop."""
    from eigenformer.limits import Limits
    from eigenformer.trained_model import TrainedModel

    try:
        from eigenformer.serving.server import address_of, is_loopback, listen, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "eigenformer":
            raise
        raise ImportError(
            "serving needs FastAPI and uvicorn: install them with  pip install 'eigenformer[serve]'"
        ) from None
    from eigenformer.serving.service import Service

    limits = Limits.parse([_ATOMS, *arguments.limits])
    set_threads(arguments)
    trained = TrainedModel.open(arguments.run_folder, arguments.device, limits=limits)
    service = Service(trained, arguments.interval, arguments.novelty)
    listening = listen(arguments.host, arguments.port)
    if not is_loopback(listening):
        print(
            "eigenformer serve: there is no authentication: everyone who can reach this address "
            "can use the model",
            file=sys.stderr,
        )
    said = f"{trained.name}: {address_of(listening)}  (stop with Ctrl-C)"
    serve(service, listening, lambda: print(said, flush=True))


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port between 0 and 65535, got '{text}'")
    return int(text)
