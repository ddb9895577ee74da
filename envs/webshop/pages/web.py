"""The shop as a web page for one user, on this machine only.

It serves the same environment that agents use; the page has no script and loads nothing. Posts must come from its own
pages, so that another site open in the browser cannot act in the shop. Needs the extra ``[serve]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from creditflow.envs.http import BadRequestError, Batcher, application, read_body
from creditflow.envs.webshop.actions import searchable
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.pages.html import document, page_body

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["PageLimits", "ShopPage", "create_shop_app"]

MAX_BODY: Final = 1 << 16  # bytes of a posted form
MAX_FIELDS: Final = 8
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits of the web page.

    Attributes:
        pending: requests that may wait; further ones get status 503.
        batch: requests handled together.
        seconds: longest time from arrival to response; beyond it status 504.
    """

    pending: int = 1_024
    batch: int = 1
    seconds: float = 30.0


class ShopPage:
    """One environment as a web page. Not thread-safe.

    Args:
        env: the environment.
        seed: random seed of the first task; later tasks follow from it.
    """

    def __init__(self, env: WebShopEnv, *, seed: int | None = None) -> None:
        self.env = env
        self._notice = ""
        self._over = False
        self.env.reset(seed=seed)

    def page(self) -> str:
        """The present page with the state of the episode below it."""
        body = page_body(self.env.shop, self.env.shop_state)
        steps = self.env.max_steps - self.env.elapsed_steps
        status = "The episode is over." if self._over else f"{steps} of {self.env.max_steps} steps are left."
        notice = f'<p role="alert" id="notice">{escape(self._notice)}</p>' if self._notice else ""
        again = '<form method="post" action="/new"><button id="new-task">New task</button></form>'
        return document(f'{body}<hr>{notice}<p id="status">{status}</p>{again}')

    def act(self, action: str) -> None:
        """Execute an action of the user; after the end of the episode only a notice appears."""
        if self._over:
            self._notice = "The episode is over: begin a new task."
            return
        _, _, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        self._notice = info["invalid_reason"]

    def new_task(self) -> None:
        """Begin another episode."""
        self.env.reset()
        self._over, self._notice = False, ""


def create_shop_app(env: WebShopEnv, *, seed: int | None = None, limits: PageLimits | None = None) -> Starlette:
    """The page as an ASGI application.

    Args:
        env, seed: see ``ShopPage``.
        limits: limits of the page.

    Raises:
        MissingExtraError: starlette is not installed.
    """
    shop = ShopPage(env, seed=seed)
    # only ``call`` is used: functions run one at a time, in the batcher's thread
    worker: Batcher[None, None] = Batcher(lambda _: [], limits or PageLimits())

    async def show(_: Request) -> Response:
        return _answer(200, await worker.call(shop.page, 1))

    async def act(request: Request) -> Response:
        form = await _form(request)
        if "words" in form:
            action = f"search[{searchable(form['words'])}]"
        elif "action" in form:
            action = form["action"]
        else:
            raise BadRequestError("missing", ("body", "action"), "a form has 'words' or 'action'")
        return await _done(lambda: shop.act(action))

    async def new(request: Request) -> Response:
        await _form(request)
        return await _done(shop.new_task)

    async def _done(change: Callable[[], None]) -> Response:
        await worker.call(change, 1)
        return _answer(303, "", Location="/")

    endpoints = [("GET", "/", show), ("POST", "/act", act), ("POST", "/new", new)]
    return application(endpoints, worker, "shop", pages=True)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a posted form, the first value of each."""
    body = (await read_body(request, MAX_BODY)).decode("utf-8", "replace")
    try:
        fields = parse_qs(body, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BadRequestError("too_long", ("body",), f"a form has at most {MAX_FIELDS} fields", 400) from error
    return {name: values[0] for name, values in fields.items()}


def _answer(status: int, text: str, **headers: Any) -> Response:
    from starlette.responses import Response

    data = text.encode("utf-8", "replace")
    return Response(data, status, {**_HEADERS, **headers}, media_type="text/html")
