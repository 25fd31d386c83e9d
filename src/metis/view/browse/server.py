"""A server of the page for this machine alone: loopback, GET, and no other site's requests.

With a token, every request needs it: in the address, or in the cookie that the address sets.
"""

import contextlib
import hmac
import sqlite3
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs

from metis.errors import MetisError
from metis.view.browse import assets
from metis.view.browse.opened import Opened, open_folders
from metis.view.browse.routes import Routes

ADDRESS = "127.0.0.1"
API = "api/"
PORT = 8400
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every answer: nothing from elsewhere in the page, and the page nowhere else."""


class Server(ThreadingHTTPServer):
    """Serves the page and its data as JSON, and follows growing folders."""

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], port: int = PORT, token: str = "") -> None:
        self.opened, self.token = open_folders(folders), token
        self.routes = Routes(self.opened)
        self._follower: Follower | None = None
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MetisError(
                f"--port {port} cannot be used ({getattr(error, 'strerror', None) or error}): name "
                "another; 0 takes one that is free"
            ) from None
        self._follower = Follower([each for each in self.opened if isinstance(each, Opened)])

    def server_close(self) -> None:
        super().server_close()
        if self._follower is not None:
            self._follower.close()
        for each in self.opened:
            each.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a browser that has left before its answer was sent, and one that asks while
        the server ends: the databases are closed."""
        if not isinstance(sys.exception(), ConnectionError | sqlite3.ProgrammingError):
            super().handle_error(request, client_address)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/" + (f"?token={self.token}" if self.token else "")


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of the page's own files, and of what the folders hold."""

    server: Server
    server_version, sys_version = "metis", ""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self._hosts():
            self._answer(HTTPStatus.FORBIDDEN, b"this server is for 127.0.0.1 alone\n")
            return
        if not self._may():
            said = b"open the address that `metis view` printed: it has a token\n"
            self._answer(HTTPStatus.FORBIDDEN, said)
            return
        name = self.path.partition("?")[0].removeprefix("/") or "index.html"
        foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        if foreign and name != "index.html":
            self._answer(HTTPStatus.FORBIDDEN, b"not for another site\n")
            return
        if name.startswith(API):
            status, content = self.server.routes.answer(self.path.removeprefix(f"/{API}"))
            self._answer(HTTPStatus(status), content, "application/json")
            return
        if name not in assets.FILES:
            self._answer(HTTPStatus.NOT_FOUND, b"there is no such file\n")
            return
        self._answer(HTTPStatus.OK, assets.read(name), assets.FILES[name])

    def refuse(self) -> None:
        self.close_connection = True
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered\n")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = refuse

    def _hosts(self) -> tuple[str, str]:
        """Names under which a browser on this machine asks; any other may be a rebound one."""
        return f"{ADDRESS}:{self.server.port}", f"localhost:{self.server.port}"

    def _may(self) -> bool:
        """True if a request has the token, or none is needed."""
        token = self.server.token
        return not token or any(
            hmac.compare_digest(given.encode(errors="replace"), token.encode())
            for given in (*self._in_address(), *self._in_cookies())
        )

    def _in_address(self) -> list[str]:
        return parse_qs(self.path.partition("?")[2], errors="replace").get("token", [])

    def _in_cookies(self) -> list[str]:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return []
        return [cookies[self._cookie].value] if self._cookie in cookies else []

    @property
    def _cookie(self) -> str:
        """The name of the cookie: cookies are of a host, whatever the port."""
        return f"metis-{self.server.port}"

    def _answer(
        self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if self.server.token and status == HTTPStatus.OK and self._in_address():
            value = f"{self._cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
            self.send_header("Set-Cookie", value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """No request log: the terminal shows the address alone."""


SLICE = 0.1
"""Seconds for one folder at once."""
BREATH = 0.005
"""Seconds in between, in which requests have the database."""
PAUSE = 1.0
"""Seconds between two looks where nothing is new."""


class Follower:
    """A thread that keeps the indexes of all open folders up to date."""

    def __init__(self, opened: Sequence[Opened]) -> None:
        self.opened = opened
        self._stop = Event()
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        """Index folders in turn, the most recently requested first."""
        while not self._stop.is_set():
            order = sorted(self.opened, key=lambda each: -each.asked)
            done = all(self._turn(each) for each in order)
            self._stop.wait(PAUSE if done else BREATH)

    def _turn(self, opened: Opened) -> bool:
        """Index one folder; True if all is read, or cannot be read now."""
        with contextlib.suppress(MetisError, OSError, sqlite3.Error):
            return opened.index.update(SLICE)
        return True
