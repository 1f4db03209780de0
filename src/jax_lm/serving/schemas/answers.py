"""What answers hold."""

from typing import Any

Schema = dict[str, Any]
TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
MAYBE_TEXT = {"type": ["string", "null"]}
FINISH = {"type": ["string", "null"], "enum": ["stop", "length", None]}


def full(properties: Schema) -> Schema:
    """An object that has all these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def many(item: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": item}


ERROR = full(
    {
        "error": full({"message": TEXT, "type": TEXT, "param": MAYBE_TEXT, "code": MAYBE_TEXT}),
        "status": {"type": "string", "enum": ["error"]},
        "error_message": TEXT,
    }
)
USAGE = full({"prompt_tokens": WHOLE, "completion_tokens": WHOLE, "total_tokens": WHOLE})
COMPLETION = full(
    {
        "id": TEXT,
        "object": {"type": "string", "enum": ["text_completion"]},
        "created": WHOLE,
        "model": TEXT,
        "choices": many(
            full(
                {
                    "index": WHOLE,
                    "text": TEXT,
                    "logprobs": full(
                        {
                            "tokens": many(TEXT),
                            "token_logprobs": many(NUMBER),
                            "top_logprobs": {"type": "null"},
                            "text_offset": many(WHOLE),
                        }
                    )
                    | {"type": ["object", "null"]},
                    "finish_reason": FINISH,
                }
            )
        ),
        "usage": USAGE,
    }
)
CHAT = full(
    {
        "id": TEXT,
        "object": {"type": "string", "enum": ["chat.completion"]},
        "created": WHOLE,
        "model": TEXT,
        "num_forgotten": WHOLE | {"description": "Messages left out, with forget_oldest."},
        "choices": many(
            full(
                {
                    "index": WHOLE,
                    "message": full(
                        {
                            "role": {"type": "string", "enum": ["assistant"]},
                            "content": TEXT,
                            "refusal": {"type": "null"},
                        }
                    ),
                    "logprobs": full(
                        {
                            "content": many(
                                full(
                                    {
                                        "token": TEXT,
                                        "logprob": NUMBER,
                                        "bytes": {"type": "null"},
                                        "top_logprobs": many({}),
                                    }
                                )
                            ),
                            "refusal": {"type": "null"},
                        }
                    )
                    | {"type": ["object", "null"]},
                    "finish_reason": FINISH,
                }
            )
        ),
        "usage": USAGE,
    }
)
MODEL = full(
    {
        "id": TEXT,
        "object": {"type": "string", "enum": ["model"]},
        "created": WHOLE,
        "owned_by": TEXT,
        "context_length": WHOLE,
    }
)
MODELS = full({"object": {"type": "string", "enum": ["list"]}, "data": many(MODEL)})
SUCCESS = {"type": "string", "enum": ["success"]}
JAXSEQ_TEXTS = full({"status": SUCCESS, "data": many(TEXT)})
JAXSEQ_NUMBERS = full({"status": SUCCESS, "data": many(NUMBER)})
SENTENCE = full({"input": TEXT, "response": TEXT})
HEALTH = full(
    {
        "status": {"type": "string", "enum": ["ok", "shutting down", "failed"]},
        "model": TEXT,
    }
)
