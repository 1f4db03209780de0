"""What requests may hold; unknown fields are refused, so that none is silently without effect."""

from typing import Any

INT32, INT64 = 2**31 - 1, 2**63 - 1
Schema = dict[str, Any]


def nullable(schema: Schema) -> Schema:
    """Null, or left out, means the default."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    widened = {**schema, "type": [*kinds, "null"]}
    return widened | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def number(low: float, high: float, text: str, **more: Any) -> Schema:
    """A number or null."""
    schema = {"type": "number", "minimum": low, "maximum": high, "description": text, **more}
    return nullable(schema)


def whole(low: int, high: int, text: str, **more: Any) -> Schema:
    """An integer or null."""
    schema = {"type": "integer", "minimum": low, "maximum": high, "description": text, **more}
    return nullable(schema)


def flag(text: str) -> Schema:
    """True, false or null."""
    return {"type": ["boolean", "null"], "description": text}


def one_object(properties: Schema, *required: str) -> Schema:
    """An object with these fields and no others."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


TEXT = {"type": "string"}
STOP_TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
STOP = {
    "title": "text, a list of at most 16 texts, or null; none of them empty",
    "anyOf": [
        STOP_TEXT,
        {"type": "array", "items": STOP_TEXT, "maxItems": 16},
        {"type": "null"},
    ],
    "description": "Texts that end the answer; they are no part of it.",
}
TEMPERATURE = number(0, 100, "Divides the logits; 0 always takes the most probable token.")
TOP_P = number(0, 1, "Draw among the fewest most probable tokens whose probability reaches p.")
TOP_K = whole(0, INT32, "Draw among the k most probable tokens only; 0: among all.")
REPETITION = number(0.01, 100, "Above 1: what has been said becomes less probable.")
SAMPLING: Schema = {
    "temperature": TEMPERATURE | {"default": 1},
    "top_p": TOP_P | {"default": 1},
    "top_k": TOP_K | {"default": 0},
    "min_p": number(0, 1, "Leave out tokens less probable than this part of the most probable."),
    "repetition_penalty": REPETITION | {"default": 1},
    "seed": whole(-INT64 - 1, INT64, "The same seed and prompt give the same text."),
    "stop": STOP,
    "min_tokens": whole(0, INT32, "Tokens before which the text does not end.", default=0),
    "stream": flag("Send the text as it is written, as server-sent events."),
    "stream_options": nullable(
        one_object(
            {
                "include_usage": flag("A last chunk says how many tokens there were."),
                "include_obfuscation": {"enum": [False, None], "type": ["boolean", "null"]},
            }
        )
    ),
    "user": {"type": ["string", "null"], "description": "Has no effect."},
    "metadata": {"type": ["object", "null"], "description": "Has no effect."},
    "store": {"type": ["boolean", "null"], "enum": [False, None]},
    "presence_penalty": {"type": ["number", "null"], "enum": [0, None]},
    "frequency_penalty": {"type": ["number", "null"], "enum": [0, None]},
    "logit_bias": {"type": ["object", "null"], "maxProperties": 0},
}
MESSAGE = one_object(
    {
        "role": {"type": "string", "enum": ["system", "developer", "user", "assistant", "tool"]},
        "content": {
            "title": "text or a list of parts of type text",
            "anyOf": [
                TEXT,
                {
                    "type": "array",
                    "minItems": 1,
                    "items": one_object(
                        {"type": {"type": "string", "enum": ["text"]}, "text": TEXT},
                        "type",
                        "text",
                    ),
                },
            ],
        },
        "name": {"type": ["string", "null"], "description": "Has no effect."},
        "refusal": {"type": "null"},
    },
    "role",
    "content",
)


def model_field(name: str) -> Schema:
    """The model that a request asks for: there is one."""
    return {"type": ["string", "null"], "enum": [name, None]}


def token_ids(vocab_size: int, context: int) -> Schema:
    """A prompt that is cut into tokens already; a longer one would be refused anyway."""
    item = {"type": "integer", "minimum": 0, "maximum": vocab_size - 1}
    return {"type": "array", "items": item, "minItems": 1, "maxItems": context}


def stop_ids(vocab_size: int) -> Schema:
    """Tokens that end a text besides the end of sequence."""
    return nullable(token_ids(vocab_size, 64) | {"minItems": 0})


def completion(model: str, vocab_size: int, max_texts: int, context: int) -> Schema:
    """Body of ``/v1/completions``."""
    ids = token_ids(vocab_size, context)
    several = {"type": "array", "minItems": 1, "maxItems": max_texts}
    prompt = {
        "title": (
            f"text, a list of token ids from 0 to {vocab_size - 1} (at most {context}, the "
            f"model's context), or a list of up to {max_texts} of either"
        ),
        "anyOf": [TEXT, {**several, "items": TEXT}, ids, {**several, "items": ids}],
    }
    own = {
        "model": model_field(model),
        "prompt": prompt,
        "n": copies(max_texts),
        "max_tokens": whole(1, INT32, "Most tokens to write.", default=16),
        "echo": flag("Begin the answer with the prompt."),
        "logprobs": whole(0, 0, "0: with the log-probability of each token written."),
        "stop_token_ids": stop_ids(vocab_size),
        "best_of": whole(1, 1, "Choosing among several is not offered."),
        "suffix": {"type": ["string", "null"], "maxLength": 0},
    }
    return one_object({**own, **SAMPLING}, "prompt")


def copies(max_texts: int) -> Schema:
    """How many texts."""
    return whole(1, max_texts, "Texts for each prompt.", default=1)


def chat(model: str, vocab_size: int, max_texts: int) -> Schema:
    """Body of ``/v1/chat/completions``."""
    own = {
        "model": model_field(model),
        "n": copies(max_texts),
        "messages": {"type": "array", "items": MESSAGE, "minItems": 1, "maxItems": 1000},
        "max_tokens": whole(1, INT32, "Most tokens to write; the default is what fits."),
        "max_completion_tokens": whole(1, INT32, "The newer name of max_tokens."),
        "logprobs": flag("With the log-probability of each token written."),
        "top_logprobs": whole(0, 0, "Other tokens' log-probabilities are not offered."),
        "stop_token_ids": stop_ids(vocab_size),
        "forget_oldest": flag("Leave out the oldest messages where the context is too short."),
        "response_format": nullable(
            one_object({"type": {"type": "string", "enum": ["text"]}}, "type")
        ),
        "tools": nullable({"type": "array", "maxItems": 0}),
    }
    return one_object({**own, **SAMPLING}, "messages")


def jaxseq_generate(max_texts: int, vocab_size: int) -> Schema:
    """Body of ``POST /generate``."""
    keywords = {
        "do_sample": flag("false, the default: the most probable token always."),
        "num_beams": whole(1, 1, "Beam search is not offered here; see jax-lm generate."),
        "max_new_tokens": whole(1, INT32, "Most tokens to write.", default=128),
        "max_length": whole(1, INT32, "The same, the prompt's tokens included."),
        "min_new_tokens": whole(0, INT32, "Tokens before which the text does not end."),
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "top_k": TOP_K,
        "repetition_penalty": REPETITION,
        "eos_token_id": whole(0, vocab_size - 1, "One more token that ends the text."),
        "pad_token_id": whole(0, INT32, "Has no effect."),
    }
    texts = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": max_texts}
    body = {
        "in_strs": texts,
        "max_input_length": whole(1, INT32, "Of longer prompts the last tokens are kept."),
        "rng": whole(-INT64 - 1, INT64, "Seed."),
        "stream": flag("Send the texts so far as server-sent events."),
        "generation_kwargs": nullable(one_object(keywords)),
    }
    return one_object(body, "in_strs")


def log_probs(max_texts: int) -> Schema:
    """Body of ``POST /log_probs``."""
    texts = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": max_texts}
    body = {
        "in_strs": texts,
        "out_strs": texts,
        "max_input_length": whole(1, INT32, "Of longer inputs the last tokens are kept."),
        "max_output_length": whole(1, INT32, "Of longer outputs the first tokens are kept."),
    }
    return one_object(body, "in_strs", "out_strs")


STOP_STREAM = one_object({"request_id": {"type": "string", "maxLength": 200}}, "request_id")
SENTENCE_QUERY: Schema = {
    "sentence": TEXT,
    "max_new_tokens": {"type": "integer", "minimum": 1, "maximum": INT32, "default": 128},
    "temperature": {"type": "number", "minimum": 0, "maximum": 100, "default": 0.8},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.9},
    "top_k": {"type": "integer", "minimum": 0, "maximum": INT32, "default": 0},
    "repetition_penalty": {"type": "number", "minimum": 0.01, "maximum": 100, "default": 1},
    "seed": {"type": "integer", "minimum": 0, "maximum": INT32},
}
