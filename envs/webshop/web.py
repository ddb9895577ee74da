"""The shop as a web page for one person, on this machine only.

The same environment that agents use answers; the page has no script and loads nothing. Requests must name this server
as their host, and posts must come from its own pages, so that no other site open in the browser can shop along.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs

from creditflow.envs.webshop.actions import searchable
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.html import document, page_body

__all__ = ["ShopServer"]

MAX_BODY: Final = 1 << 16  # bytes of a posted form
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ShopServer:
    """Serves one environment on the loopback interface.

    Args:
        env: whose episodes are played.
        port: 0 picks a free one.
        seed: of the first task; later tasks follow from it.

    Use ``serve_forever`` in a thread of your own, ``close`` from another.
    """

    def __init__(self, env: WebShopEnv, *, port: int = 0, seed: int | None = None) -> None:
        self.env = env
        self._lock = Lock()
        self._notice = ""
        self._over = False
        self.env.reset(seed=seed)
        shop = self

        class Handler(_Handler):
            server_shop = shop

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where to point a browser."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Values of the Host header that are answered."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def serve_forever(self) -> None:
        """Answer requests until ``close``."""
        self._server.serve_forever()

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()

    def page(self) -> str:
        """The present page with the state of the episode below it."""
        with self._lock:
            body = page_body(self.env.shop, self.env.shop_state)
            left = self.env.max_steps - self.env.elapsed_steps
            status = "The episode is over." if self._over else f"{left} of {self.env.max_steps} steps are left."
            notice = f'<p role="alert" id="notice">{escape(self._notice)}</p>' if self._notice else ""
            again = '<form method="post" action="/new"><button id="new-task">New task</button></form>'
            return document(f'{body}<hr>{notice}<p id="status">{status}</p>{again}')

    def act(self, action: str) -> None:
        """Do an action of the person; after the end nothing happens but a notice."""
        with self._lock:
            if self._over:
                self._notice = "The episode is over: begin a new task."
                return
            _, _, terminated, truncated, info = self.env.step(action)
            self._over = terminated or truncated
            self._notice = info["invalid_reason"]

    def new_task(self) -> None:
        """Begin another episode."""
        with self._lock:
            self.env.reset()
            self._over, self._notice = False, ""


class _Handler(BaseHTTPRequestHandler):
    server_shop: ShopServer
    server_version, sys_version = "creditflow", ""
    timeout = 30

    def do_GET(self) -> None:
        """The present page."""
        if self._refused():
            return
        if self.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, "<p>There is only one page: <a href='/'>the shop</a>.</p>")
            return
        self._send(HTTPStatus.OK, self.server_shop.page())

    def do_POST(self) -> None:
        """An action, or a new task; then back to the page."""
        if self._refused(posted=True):
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"<p>A form has a length of at most {MAX_BODY} bytes.</p>"
            )
            return
        try:
            form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), max_num_fields=8)
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, "<p>A form has at most eight fields.</p>")
            return
        if self.path == "/new":
            self.server_shop.new_task()
        elif self.path == "/act" and "words" in form:
            words = searchable(form["words"][0])
            self.server_shop.act(f"search[{words}]")
        elif self.path == "/act" and "action" in form:
            self.server_shop.act(form["action"][0])
        elif self.path != "/act":
            self._answer(HTTPStatus.NOT_FOUND, "<p>Forms go to /act and /new.</p>")
            return
        self._send(HTTPStatus.SEE_OTHER, "", location="/")

    def _refused(self, posted: bool = False) -> bool:
        """Answer and return True if the request is not meant for us or comes from another site."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server_shop.hosts:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "<p>This server answers on 127.0.0.1 and localhost only.</p>")
            return True
        if posted and origin != f"http://{host}":
            self.close_connection = True
            self._answer(HTTPStatus.FORBIDDEN, "<p>Forms are accepted from the shop's own pages only.</p>")
            return True
        return False

    def _answer(self, status: HTTPStatus, body: str) -> None:
        self._send(status, document(body))

    def _send(self, status: HTTPStatus, text: str, location: str = "") -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Requests are not logged."""
