"""What every request passes: where it comes from, how large it is, and headers of the answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigenformer.limits import LimitError, Limits

SECONDS_TO_SEND = 30.0
"""How long a client may take to send its request."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses requests before they reach the application.

    Args:
        app: The application.
        limits: How large a request may be.
        local: Whether the server is for this machine only. Then, a request must name this machine
            as its host, which a page whose name was rebound to this address does not, and must not
            be part of another site's page.
    """

    def __init__(self, app: ASGIApp, limits: Limits, local: bool) -> None:
        self.app, self.limits, self.local = app, limits, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answered.setdefault(name, value)
            await send(message)

        if refusal := self._refusal(headers):
            status, reason = refusal
            await JSONResponse({"detail": reason}, status)(scope, receive, with_headers)
            return
        await self.app(scope, self._limited(receive), with_headers)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Returns the status and the reason if a request is refused by its headers."""
        if self.local and not is_local(headers.getlist("host")):
            return 421, "the server is for this machine: use http://127.0.0.1 or http://localhost"
        cross_site = headers.get("sec-fetch-site") == "cross-site"
        if self.local and cross_site and headers.get("sec-fetch-mode") != "navigate":
            return 403, "requests from pages of other sites are refused"
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or len(length) > 18:
            return 400, "Content-Length: expected a number of bytes"
        try:
            self.limits.check("request_bytes", int(length), "bytes in the request")
        except LimitError as error:
            return 413, str(error)
        return None

    def _limited(self, receive: Receive) -> Receive:
        """Returns what receives the body, at most as much of it as is allowed."""
        count, clock = 0, asyncio.get_running_loop().time
        end = clock() + SECONDS_TO_SEND

        async def limited() -> Message:
            nonlocal count
            try:
                message = await asyncio.wait_for(receive(), end - clock())
            except asyncio.TimeoutError:
                raise HTTPException(408, "the request was not sent in time") from None
            count += len(message.get("body", b""))
            try:
                self.limits.check("request_bytes", count, "bytes in the request")
            except LimitError as error:
                raise HTTPException(413, str(error)) from None
            return message

        return limited


def is_local(hosts: Iterable[str]) -> bool:
    """Whether the Host headers of a request, of which there must be one, name this machine."""
    values = list(hosts)
    if len(values) != 1:
        return False
    name, colon, port = values[0].rpartition(":")
    if not colon or values[0].endswith("]"):
        name, port = values[0], "0"
    if not (port.isascii() and port.isdecimal()):
        return False
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
