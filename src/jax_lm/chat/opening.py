"""From what was asked for to a session."""

from dataclasses import dataclass
from pathlib import Path

from jax_lm.chat.conversation import Conversation, load_conversation
from jax_lm.chat.local_speaker import LocalSpeaker
from jax_lm.chat.remote_speaker import RemoteSpeaker
from jax_lm.chat.session import ChatSession
from jax_lm.chat.speaker import Speaker
from jax_lm.chat.terminal import standard_terminal
from jax_lm.client.server_client import ServerClient
from jax_lm.documents.conversations.templates import chat_template
from jax_lm.errors import UsageError
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.pretrained import open_model
from jax_lm.training.compilation import use_compilation_cache


@dataclass(frozen=True, kw_only=True)
class ChatOptions:
    """Whom to talk to; exactly one of ``model`` and ``url``."""

    model: str | None = None
    url: str | None = None
    system: str = ""
    load: Path | None = None
    chat_template: str | None = None
    dtype: str = "float32"


def open_chat(options: ChatOptions, sampling: SamplingConfig, token: str | None) -> ChatSession:
    """Load the model or find the server.

    Raises:
        JaxLMError: there is no such model, server or conversation.
        UsageError: not exactly one of model and server is named.
    """
    if (options.model is None) == (options.url is None):
        raise UsageError("name a MODEL to load, or a server with --url: exactly one of them")
    conversation = Conversation() if options.load is None else load_conversation(options.load)
    conversation.system = options.system or conversation.system
    speaker = _speaker(options, token)
    return ChatSession(speaker, standard_terminal(), sampling, conversation)


def _speaker(options: ChatOptions, token: str | None) -> Speaker:
    if options.url is not None:
        if options.chat_template is not None:
            raise UsageError("--chat-template is the server's to choose: leave it out with --url")
        if options.dtype != ChatOptions.dtype:
            raise UsageError("--dtype is the server's to choose: leave it out with --url")
        return RemoteSpeaker(ServerClient(options.url, token))
    assert options.model is not None
    use_compilation_cache("auto", lambda _: None)
    opened = open_model(options.model)
    template = chat_template(options.chat_template, opened.tokenizer_path)
    return LocalSpeaker(opened, template, dtype=options.dtype)
