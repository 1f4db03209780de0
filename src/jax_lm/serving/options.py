"""How a server serves: where it listens, what it takes at once, and for how long."""

from dataclasses import dataclass

from jax_lm.errors import UsageError, check_values


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Limits and addresses of a server."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in: give a token then."""
    port: int = 8000
    """Port to listen on; 0 takes a free one, and says which."""
    max_concurrent: int = 16
    """Texts written at the same time, each in a slot of one batch."""
    max_queue: int = 64
    """Texts that may wait for a slot; a request beyond them gets status 429."""
    request_timeout: float = 300.0
    """Seconds until a request is given up, waiting included."""
    read_timeout: float = 20.0
    """Seconds that a client may take to send a request's head, and as many for its body."""
    grace_period: float = 30.0
    """Seconds that running requests have to finish once the server is told to stop."""
    max_body_bytes: int = 1 << 20
    """Largest request body."""
    max_texts: int = 128
    """Most texts that one request may ask for: prompts times n."""
    allow_host: tuple[str, ...] = ()
    """More names by which the server may be called where no token is needed; without a token it
    answers to localhost, to --host and to addresses only."""
    allow_origin: tuple[str, ...] = ()
    """Origins of web pages that may call the server, such as https://example.org, or *."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check_values(
            {
                "--port": (self.port, 0 <= self.port < 65536, "0 to 65535"),
                "--max-concurrent": (self.max_concurrent, self.max_concurrent >= 1, "1 or more"),
                "--max-queue": (self.max_queue, self.max_queue >= 0, "0 or more"),
                "--request-timeout": (self.request_timeout, self.request_timeout > 0, "above 0"),
                "--read-timeout": (self.read_timeout, self.read_timeout > 0, "above 0"),
                "--grace-period": (self.grace_period, self.grace_period >= 0, "0 or more"),
                "--max-body-bytes": (self.max_body_bytes, self.max_body_bytes >= 1, "1 or more"),
                "--max-texts": (self.max_texts, self.max_texts >= 1, "1 or more"),
            }
        )
        if not self.host:
            raise UsageError("--host is empty, expected an address such as 127.0.0.1")
