"""Who asks: by which name a server is called, and from what web page.

A browser lets every page talk to servers on its user's machine. A page cannot read the answers of
another origin, unless its own name was made to lead there (DNS rebinding), which the header Host
tells; and it can make a browser follow links, which the header Sec-Fetch-Site tells.
"""

import ipaddress

from starlette.types import Scope

from jax_lm.serving.options import ServeOptions
from jax_lm.serving.refusals import Refused

LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")
OWN_SITE = (b"same-origin", b"none")
"""Of the server's own pages, and of what a person typed or opened from a bookmark."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """A header's value; None: it was not sent."""
    return next((value for key, value in scope["headers"] if key == name), None)


def check_host(scope: Scope, options: ServeOptions) -> None:
    """Refuse a name that is not the server's.

    Raises:
        Refused: 421.
    """
    given = header(scope, b"host")
    if given is None:  # no browser
        return
    name = host_name(given.decode("latin-1"))
    if name in (*LOCAL, options.host.lower(), *(one.lower() for one in options.allow_host)):
        return
    # Where it listens everywhere its own address may be any; no page's name is an address.
    if options.host in EVERYWHERE and is_address(name):
        return
    raise Refused(
        421,
        f"this server is not called {name[:100]!r}: a name needs --allow-host, or a token",
        code="unknown_host",
    )


def check_site(scope: Scope, options: ServeOptions) -> None:
    """Refuse links and pictures of other sites' pages.

    Raises:
        Refused: 403.
    """
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    if site is None or site in OWN_SITE or "*" in options.allow_origin:
        return
    if origin is not None and origin.decode("latin-1") in options.allow_origin:
        return
    raise Refused(
        403,
        "a page of another site asks; let it with --allow-origin, or open the address yourself",
        code="cross_site",
    )


def host_name(host: str) -> str:
    """The name or address in a header ``Host``, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def is_address(name: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
