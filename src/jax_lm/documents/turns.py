"""Questions with answers and instructions with outputs: conversations of a user's turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from jax_lm.documents.conversations.messages import ASSISTANT, SYSTEM, USER, Message, message
from jax_lm.documents.malformed import RecordError, kind

QUESTIONS = (("q", "a"), ("Q", "A"), ("question", "answer"))
INSTRUCTION, INSTANCES = ("instruction", "input", "output"), ("instruction", "instances")
TURN_FIELDS = (*QUESTIONS, INSTRUCTION, INSTRUCTION[::2], INSTANCES)


def two_turns(record: Mapping[str, Any], fields: Sequence[str]) -> tuple[Message, ...]:
    """The user's turn and the assistant's, as often as the record has instances of the task.

    Args:
        record: it may have a ``system`` message besides.
        fields: one of ``TURN_FIELDS``, all of which the record has.

    Raises:
        RecordError: a field is not text.
    """
    turns = _turns(record, fields)
    system = record.get("system")
    if isinstance(system, str) and system.strip():
        return message(SYSTEM, system), *turns
    return turns


def _turns(record: Mapping[str, Any], fields: Sequence[str]) -> tuple[Message, ...]:
    if tuple(fields) in QUESTIONS:
        question, answer = fields
        return _turn(_text(record, question), _text(record, answer))
    instruction = _text(record, "instruction")
    if "instances" not in fields:
        return _turn(_with_input(instruction, record), _text(record, "output"))
    instances = record["instances"]
    if not isinstance(instances, list) or not instances:
        raise RecordError(f"field 'instances' should be a list of tasks, found {kind(instances)}")
    turns: list[Message] = []
    for number, instance in enumerate(instances):
        where = f" of instance {number}"
        if not isinstance(instance, Mapping) or "output" not in instance:
            raise RecordError(f"instance {number} should be an object with 'output'")
        turns += _turn(_with_input(instruction, instance, where), _text(instance, "output", where))
    return tuple(turns)


def _turn(asked: str, answer: str) -> tuple[Message, Message]:
    return message(USER, asked), message(ASSISTANT, answer)


def _with_input(instruction: str, record: Mapping[str, Any], where: str = "") -> str:
    """What the task is about stands in a paragraph of its own after the instruction."""
    given = _text(record, "input", where) if record.get("input") is not None else ""
    return f"{instruction}\n\n{given}" if given.strip() else instruction


def _text(record: Mapping[str, Any], name: str, where: str = "") -> str:
    value = record[name]
    if not isinstance(value, str):
        raise RecordError(f"field {name!r}{where} should be text, found {kind(value)}")
    return value
