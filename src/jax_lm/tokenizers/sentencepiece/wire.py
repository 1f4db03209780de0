"""Protocol Buffers' wire format, as far as a SentencePiece model needs it.

Reading the few fields by hand needs no generated code, whose version would have to fit the
protobuf runtime that happens to be installed. Format: protobuf.dev/programming-guides/encoding.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

Value = int | bytes
Fields = Mapping[int, Sequence[Value]]
"""Values by field number, in the order of the file."""

VARINT, EIGHT_BYTES, DELIMITED, FOUR_BYTES = 0, 1, 2, 5
INT_BITS = 64


def read_fields(data: bytes) -> Fields:
    """The fields of one message.

    Raises:
        ValueError: the bytes are not such a message.
    """
    fields: dict[int, list[Value]] = defaultdict(list)
    for number, value in _fields(data):
        fields[number].append(value)
    return fields


def text(fields: Fields, number: int, default: str = "") -> str:
    """A string field; the last value counts."""
    value = fields.get(number, [default])[-1]
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def raw(fields: Fields, number: int) -> bytes:
    """A bytes field, empty if absent."""
    value = fields.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is a number, expected bytes")
    return value


def integer(fields: Fields, number: int, default: int = 0) -> int:
    """A signed integer, boolean or enum field."""
    value = fields.get(number, [default])[-1]
    if isinstance(value, bytes):
        raise ValueError(f"field {number} is text, expected a number")
    return value - (1 << INT_BITS) if value >= 1 << (INT_BITS - 1) else value


def real(fields: Fields, number: int, default: float = 0.0) -> float:
    """A float32 field."""
    value = fields.get(number, [struct.pack("<f", default)])[-1]
    if not isinstance(value, bytes) or len(value) != 4:
        raise ValueError(f"field {number}: expected a 32-bit float")
    return float(struct.unpack("<f", value)[0])


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value: Value
            value, position = _varint(data, position)
        else:
            size, position = _size(data, position, wire_type)
            value = data[position : position + size]
            if len(value) != size:
                raise ValueError(f"cut off inside field {number}")
            position += size
        yield number, value


def _size(data: bytes, position: int, wire_type: int) -> tuple[int, int]:
    if wire_type == DELIMITED:
        return _varint(data, position)
    if wire_type in (EIGHT_BYTES, FOUR_BYTES):
        return (8 if wire_type == EIGHT_BYTES else 4), position
    raise ValueError(f"wire type {wire_type} at byte {position}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift >= INT_BITS + 6:
            raise ValueError(f"no number at byte {position}")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return value, position
