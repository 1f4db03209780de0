"""What the server offers, as an OpenAPI document made of the schemas that check it."""

from typing import Any

import jax_lm
from jax_lm.serving.schemas import answers, requests
from jax_lm.serving.served import Served

SENTENCES = {
    400: "The request is not as described here, or does not fit the model.",
    401: "The token is missing or wrong.",
    403: "The call comes from a web page of another site.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server is not called by that name.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "The server failed.",
    503: "The server is shutting down, or its model failed.",
    504: "The answer took too long.",
}
READING = (400, 408, 413, 415)
WORKING = (429, 500, 503, 504)
Schema = dict[str, Any]


def document(served: Served) -> Schema:
    """The OpenAPI document of a server."""
    schemas = _schemas(served)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"jax-lm serve {served.name}",
            "version": jax_lm.__version__,
            "description": "OpenAI-compatible completions and chat, JaxSeq's and dsGPT2's calls.",
        },
        "paths": _paths(served),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(served: Served) -> Schema:
    name, vocab_size, most = served.name, served.vocab_size, served.most_texts
    context = served.worker.context_length
    return {
        "CompletionRequest": requests.completion(name, vocab_size, most, context),
        "ChatRequest": requests.chat(name, vocab_size, most),
        "GenerateRequest": requests.jaxseq_generate(most, vocab_size),
        "LogProbsRequest": requests.log_probs(served.options.max_texts),
        "StopStreamRequest": requests.STOP_STREAM,
        "Completion": answers.COMPLETION,
        "ChatCompletion": answers.CHAT,
        "Texts": answers.JAXSEQ_TEXTS,
        "Numbers": answers.JAXSEQ_NUMBERS,
        "Sentence": answers.SENTENCE,
        "Model": answers.MODEL,
        "Models": answers.MODELS,
        "Health": answers.HEALTH,
        "Error": answers.ERROR,
    }


class _Operations:
    """Describes calls; all but the open ones want the token, where there is one."""

    def __init__(self, served: Served) -> None:
        self._security: list[Schema] = [{"token": []}] if served.token is not None else []

    def one(self, summary: str, answer: Schema, *errors: int, **more: Any) -> Schema:
        """A call with its answer and the refusals it may get."""
        refusals = (*errors, 401 if self._security else 421)
        return {
            "summary": summary,
            "security": self._security,
            "responses": {"200": answer, **{str(code): _error(code) for code in refusals}},
            **more,
        }

    def get(self, summary: str, answer: Schema, *errors: int, **more: Any) -> Schema:
        """A call without a body."""
        return {"get": self.one(summary, answer, *errors, **more)}

    def post(self, summary: str, name: str, answer: Schema, *errors: int) -> Schema:
        """A call with one."""
        body = {"required": True, "content": {"application/json": {"schema": _ref(name)}}}
        return {"post": self.one(summary, answer, *READING, *errors, requestBody=body)}


def _paths(served: Served) -> Schema:
    call = _Operations(served)
    return {**_openai_paths(call), **_other_paths(call), **_status_paths(call)}


def _openai_paths(call: _Operations) -> Schema:
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    completion, chat = (
        _stream("Completion", "The texts."),
        _stream("ChatCompletion", "The answers."),
    )
    working = (404, *WORKING)
    return {
        "/v1/completions": call.post("Continue prompts", "CompletionRequest", completion, *working),
        "/v1/chat/completions": call.post(
            "Answer in a conversation", "ChatRequest", chat, *working
        ),
        "/v1/models": call.get("The model, in a list", _json("Models", "The list.")),
        "/v1/models/{model}": call.get("The model", _json("Model", "It."), 404, parameters=[model]),
    }


def _other_paths(call: _Operations) -> Schema:
    texts, numbers = _stream("Texts", "The texts."), _json("Numbers", "In nats.")
    sentence = _json("Sentence", "The reply.")
    stopped = _plain("Whether there was one.", "boolean")
    parameters = _parameters()
    return {
        "/generate": {
            **call.post("Continue texts, as JaxSeq does", "GenerateRequest", texts, *WORKING),
            **call.get(
                "Reply to a sentence, as dsGPT2 does",
                sentence,
                400,
                403,
                *WORKING,
                parameters=parameters,
            ),
        },
        "/log_probs": call.post(
            "Log-probabilities of outputs", "LogProbsRequest", numbers, *WORKING
        ),
        "/stop_stream": call.post("End a stream of /generate", "StopStreamRequest", stopped, 503),
    }


def _status_paths(call: _Operations) -> Schema:
    health = {str(code): _json("Health", "How it is.") for code in (200, 503)}
    page = {"200": _answer("It.", {"text/html": {"schema": {"type": "string"}}})}
    return {
        "/healthz": {"get": {"summary": "Whether it serves", "security": [], "responses": health}},
        "/metrics": call.get("Counts", _answer("For Prometheus.", _TEXT)),
        "/openapi.json": call.get("This", _plain("This.", "object")),
        "/": {"get": {"summary": "The chat page", "security": [], "responses": page}},
    }


def _plain(text: str, kind: str) -> Schema:
    return _answer(text, {"application/json": {"schema": {"type": kind}}})


_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def _parameters() -> list[Schema]:
    return [
        {"name": name, "in": "query", "required": name == "sentence", "schema": schema}
        for name, schema in requests.SENTENCE_QUERY.items()
    ]


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(text: str, content: Schema) -> Schema:
    return {"description": text, "content": content}


def _json(name: str, text: str) -> Schema:
    return _answer(text, {"application/json": {"schema": _ref(name)}})


def _stream(name: str, text: str) -> Schema:
    """JSON, or with ``stream`` the events that make it up."""
    event = {"data": {"type": "string", "description": "JSON, or [DONE]"}}
    schema = {"type": "object", "properties": {**event, "event": {"type": "string"}}}
    events = {"text/event-stream": {"schema": schema}}
    return _answer(text, {"application/json": {"schema": _ref(name)}} | events)


def _error(status: int) -> Schema:
    answer = _json("Error", SENTENCES[status])
    if status == 429:
        answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return answer
