"""``jax-lm serve``: a model behind HTTP."""

import sys

from jax_lm.cli.arguments import parse
from jax_lm.cli.serve_arguments import TOKEN_VARIABLE, ServeArguments
from jax_lm.serving.start import check_installed, load_served

DESCRIPTION = """Serve a model: OpenAI's API with streaming, JaxSeq's and dsGPT2's calls, metrics
for Prometheus, and a chat page for the browser. SIGTERM or Ctrl-C lets running requests finish.

Example: jax-lm serve runs/quickstart --max-concurrent 16
         then open http://127.0.0.1:8000, or
         curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
           -d '{"prompt": "def main(", "max_tokens": 40}'
"""


def main(args: list[str]) -> None:
    """Run ``jax-lm serve``."""
    given = parse(ServeArguments, args, "jax-lm serve", DESCRIPTION)
    check_installed()
    from jax_lm.serving.running import listen, run

    token = given.token()
    with listen(given.options()) as listening:
        served = load_served(
            given.model,
            given.options(),
            name=given.served_model_name,
            dtype=given.dtype,
            max_length=given.max_length,
            template=given.chat_template,
            token=token,
            mesh=given.mesh,
        )
        if given.is_open and token is None:
            _note(
                f"anyone who reaches {given.host} can use it: give --token-file or {TOKEN_VARIABLE}"
            )
        port = listening.getsockname()[1]
        host = f"[{given.host}]" if ":" in given.host else given.host
        context = served.worker.context_length
        print(
            f"serving {served.name} at http://{host}:{port} ({given.max_concurrent} texts at once "
            f"of at most {context:,} tokens, {given.dtype}); Ctrl-C ends it",
            flush=True,
        )
        run(served, listening)


def _note(line: str) -> None:
    print(f"jax-lm serve: {line}", file=sys.stderr)
