"""Chat templates run here: jinja in a sandbox, with what the Hugging Face ecosystem gives them.

A template comes with a model and is not to be trusted: it can reach nothing but the plain values
it is given.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jax_lm.documents.malformed import RecordError
from jax_lm.errors import JaxLMError, missing_extra

GENERATED_OPEN, GENERATED_CLOSE = "\ue0f2", "\ue0f3"
"""Private-use characters around what ``{% generation %}`` marks, where marks are asked for."""
MARKED = "_marked"


def check_syntax(source: str, name: str) -> None:
    """Refuse a template that cannot be compiled.

    Raises:
        JaxLMError: it names the template, the line and what jinja says; or jinja2 is missing.
    """
    jinja2 = _jinja2()
    try:
        _compiled(source)
    except jinja2.exceptions.TemplateSyntaxError as error:
        said = " ".join(str(error.message).split())
        raise JaxLMError(f"{name}:{error.lineno}: not a jinja template: {said}") from error


def render(source: str, messages: list[dict[str, str]], values: Mapping[str, object]) -> str:
    """What a template writes for some messages.

    Args:
        source: the template.
        messages: ``role``, ``content`` and further texts of each.
        values: special tokens by name, and whatever else the template may use.

    Raises:
        RecordError: the template refuses them or fails.
    """
    template = _compiled(source)
    try:
        text: str = template.render(
            messages=messages, tools=None, documents=None, add_generation_prompt=False, **values
        )
    except Exception as error:  # a template is a program: it may fail in any way
        said = " ".join(str(error).split()) or type(error).__name__
        raise RecordError(f"the chat template refuses this conversation: {said}") from error
    return text


def _jinja2() -> Any:
    try:
        import jinja2.ext
        import jinja2.sandbox
    except ImportError as error:
        raise missing_extra("jinja2", "chat", "a chat template") from error
    return jinja2


@lru_cache(maxsize=16)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Any:
    jinja2 = _jinja2()
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_generation(), jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raiser(jinja2.exceptions.TemplateError)
    return environment


def _generation() -> type[Any]:
    """The extension that knows ``{% generation %}...{% endgeneration %}``."""
    jinja2 = _jinja2()

    class Generation(jinja2.ext.Extension):  # type: ignore[misc,name-defined]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

        @jinja2.pass_context  # type: ignore[untyped-decorator]
        def _mark(self, context: Any, caller: Callable[[], str]) -> str:
            text = caller()
            return f"{GENERATED_OPEN}{text}{GENERATED_CLOSE}" if context.get(MARKED) else text

    return Generation


def _raiser(error: type[Exception]) -> Callable[[str], None]:
    def raise_exception(message: str) -> None:
        raise error(message)

    return raise_exception


def _to_json(value: Any, ensure_ascii: bool = False, **settings: Any) -> str:
    # jinja's own filter escapes HTML, which no tokenizer was trained on
    return json.dumps(value, ensure_ascii=ensure_ascii, **settings)
