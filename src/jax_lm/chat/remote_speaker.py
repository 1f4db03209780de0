"""A model that a server runs, in a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any

from jax_lm.client.server_client import OURS, ServerClient, request_fields
from jax_lm.documents.conversations.messages import Message
from jax_lm.generation.sampling import SamplingConfig


class RemoteSpeaker:
    """Answers through ``/v1/chat/completions``; the server applies its own template."""

    def __init__(self, client: ServerClient) -> None:
        """Ask the server for its model.

        Raises:
            JaxLMError: it does not answer.
        """
        self._client = client
        model = client.model()
        self._model = str(model["id"])
        # A server of another program may refuse a field that it does not know.
        self._own = {"forget_oldest": True} if model.get("owned_by") == OURS else {}
        self.name = f"{self._model} at {client.url}"
        self.num_forgotten = 0
        self.is_cut = False

    def interrupt(self) -> None:
        """Hang up, so that a silent server is not waited for."""
        self._client.hang_up()

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        """As the Protocol says; closing the iterator hangs up, and the server stops."""
        said = [{"role": one.role, "content": dict(one.texts)["content"]} for one in messages]
        body: dict[str, Any] = {"model": self._model, "messages": said}
        body |= request_fields(sampling) | self._own
        self.num_forgotten = 0
        return self._said(body)

    def _said(self, body: dict[str, Any]) -> Iterator[str]:
        for event in self._client.stream("/v1/chat/completions", body):
            self.num_forgotten = event.get("num_forgotten", self.num_forgotten)
            for choice in event.get("choices", []):
                self.is_cut = choice.get("finish_reason") == "length"
                yield choice.get("delta", {}).get("content") or ""
