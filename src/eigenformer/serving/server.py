"""Runs the application on a socket until it is told to stop."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from eigenformer.serving.app import make_app
from eigenformer.serving.service import Service

_GRACE = 3  # seconds for requests under way after a signal; a command has eight to end


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens. Raises an error in one sentence if that is impossible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=256)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{host}, port {port}: {reason}; use --host or --port") from None


def is_loopback(listening: socket.socket) -> bool:
    """Whether only programs of this machine can reach a socket."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def address_of(listening: socket.socket) -> str:
    """Returns the address of a socket for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Answers the requests under way with an error when it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the work first, because what waits for it would keep connections open."""
        self._service.close(wait=False)
        await super().shutdown(sockets)


def serve(service: Service, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answers requests until SIGINT or SIGTERM, which raises ``KeyboardInterrupt`` at the end.

    Args:
        service: What answers.
        listening: The socket, which is closed in the end.
        ready: Called when the application is complete.
    """
    app = make_app(service, local=is_loopback(listening))
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=4 * service.trained.limits.requests,
        timeout_graceful_shutdown=_GRACE,
    )
    ready()
    try:
        _Server(config, service).run(sockets=[listening])
    finally:
        listening.close()
