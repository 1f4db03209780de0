"""dsGPT2's ``GET /generate?sentence=``: one reply, nothing else to say."""

from starlette.requests import Request
from starlette.responses import Response

from jax_lm.documents.conversations.messages import USER, message
from jax_lm.generation.chat_prompt import ChatPrompt, chat_prompt
from jax_lm.serving.answers import json_answer
from jax_lm.serving.reading import read_query
from jax_lm.serving.routes.sampling import sampling
from jax_lm.serving.schemas.requests import SENTENCE_QUERY
from jax_lm.serving.served import Served
from jax_lm.serving.streams import answered


async def sentence(request: Request) -> Response:
    """A reply, where the model has a chat template; else what it writes after the sentence."""
    served: Served = request.app.state.served
    given = {name: one["default"] for name, one in SENTENCE_QUERY.items() if "default" in one}
    given |= read_query(request, SENTENCE_QUERY)
    prompt = _prompt(given["sentence"], served)
    given["stop_token_ids"] = prompt.stop_ids
    config = sampling(given, room=served.room(prompt.ids), default_tokens=given["max_new_tokens"])
    writings = served.write([prompt.ids], config, stop=prompt.stop)
    await answered(request, served, writings.finished(), writings.abandon)
    return json_answer({"input": given["sentence"], "response": writings.writings[0].text})


def _prompt(text: str, served: Served) -> ChatPrompt:
    if served.has_template:
        asked = chat_prompt([message(USER, text)], served.template, served.tokenizer)
        return served.conversation(asked)
    return ChatPrompt(served.encode(text), (), ())
