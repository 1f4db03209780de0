"""A model that a server runs."""

from collections.abc import Iterator, Sequence
from typing import Any

from jax_lm.chat.server_client import ServerClient
from jax_lm.documents.conversations.messages import Message
from jax_lm.generation.sampling import SamplingConfig


class RemoteSpeaker:
    """Answers through ``/v1/chat/completions``; the server applies its own template."""

    num_forgotten = 0

    def __init__(self, client: ServerClient) -> None:
        """Ask the server for its model.

        Raises:
            JaxLMError: it does not answer.
        """
        self._client = client
        self._model = client.model_name()
        self.name = f"{self._model} at {client.url}"

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        """As the Protocol says; closing the iterator hangs up, and the server stops."""
        body = {
            "model": self._model,
            "messages": [
                {"role": one.role, "content": dict(one.texts)["content"]} for one in messages
            ],
            **request_fields(sampling),
        }
        for event in self._client.stream("/v1/chat/completions", body):
            for choice in event.get("choices", []):
                yield choice.get("delta", {}).get("content") or ""


def request_fields(sampling: SamplingConfig) -> dict[str, Any]:
    """Sampling settings as the server takes them."""
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": sampling.seed,
    }
    return {**fields, "stop": list(sampling.stop)} if sampling.stop else fields
