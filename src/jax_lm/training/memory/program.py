"""A traced computation as lists: calls written out, loops kept, what nobody reads left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp

LOOPS = ("scan", "while", "cond", "pallas_call")
"""What keeps a body of its own; all else that has one is written out."""
BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclass(frozen=True, eq=False)
class Value:
    """An array, by identity."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def itemsize(self) -> int:
        """Bytes of an element; a key is two words."""
        if jnp.issubdtype(self.dtype, jax.dtypes.prng_key):
            return 8
        return int(jnp.dtype(self.dtype).itemsize)


@dataclass(frozen=True, eq=False)
class Operation:
    """One step of a computation."""

    name: str
    """JAX's name of the primitive."""
    inputs: tuple[Value, ...]
    """Without literals, but for those of a loop."""
    outputs: tuple[Value, ...]
    params: dict[str, Any]
    body: "Program | None" = None
    """Of a scan."""


@dataclass(frozen=True, eq=False)
class Program:
    """Operations in an order that they can be done in."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operations: tuple[Operation, ...]


def read_program(jaxpr: Any) -> Program:
    """A closed jaxpr, written out."""
    inputs = tuple(_value(var) for var in jaxpr.jaxpr.invars)
    known = dict(zip(jaxpr.jaxpr.invars, inputs, strict=True))
    known |= {var: _value(var) for var in jaxpr.jaxpr.constvars}
    operations = list(_written_out(jaxpr.jaxpr.eqns, known))
    outputs = tuple(_look_up(known, var) for var in jaxpr.jaxpr.outvars)
    return Program(inputs, outputs, tuple(_needed(operations, outputs)))


def _value(var: Any) -> Value:
    return Value(tuple(getattr(var.aval, "shape", ())), getattr(var.aval, "dtype", jnp.float32))


def _look_up(known: dict[Any, Value], var: Any) -> Value:
    """The value of a variable; a literal is one of its own."""
    return _value(var) if hasattr(var, "val") else known[var]


def _written_out(eqns: Iterable[Any], known: dict[Any, Value]) -> Iterator[Operation]:
    for eqn in eqns:
        name = eqn.primitive.name
        inner = next((eqn.params[key] for key in BODIES if key in eqn.params), None)
        if inner is not None and name not in LOOPS:
            yield from _call(getattr(inner, "jaxpr", inner), eqn, known)
            continue
        outputs = tuple(_value(var) for var in eqn.outvars)
        known.update(zip(eqn.outvars, outputs, strict=True))
        if name == "scan":
            inputs = tuple(_look_up(known, var) for var in eqn.invars)
            yield Operation(name, inputs, outputs, eqn.params, read_program(eqn.params["jaxpr"]))
        else:
            inputs = tuple(known[var] for var in eqn.invars if not hasattr(var, "val"))
            yield Operation(name, inputs, outputs, eqn.params)


def _call(jaxpr: Any, eqn: Any, known: dict[Any, Value]) -> Iterator[Operation]:
    """What a call does; the same function may be called again with other values."""
    inside = {var: _value(var) for var in jaxpr.constvars}
    inside |= {
        var: _look_up(known, given) for var, given in zip(jaxpr.invars, eqn.invars, strict=True)
    }
    yield from _written_out(jaxpr.eqns, inside)
    for var, result in zip(eqn.outvars, jaxpr.outvars, strict=True):
        known[var] = _look_up(inside, result)


def _needed(operations: Sequence[Operation], outputs: Iterable[Value]) -> list[Operation]:
    """Operations that something of ``outputs`` comes from."""
    wanted, kept = set(outputs), []
    for operation in reversed(operations):
        if wanted.isdisjoint(operation.outputs):
            continue
        if operation.body is not None:
            operation = _without_unread(operation, wanted)
        wanted.update(operation.inputs)
        kept.append(operation)
    return kept[::-1]


def _without_unread(scan: Operation, wanted: set[Value]) -> Operation:
    """A scan that carries and writes nothing that nobody reads."""
    body, consts, carry = scan.body, scan.params["num_consts"], scan.params["num_carry"]
    assert body is not None
    read = [value in wanted for value in scan.outputs]
    while True:
        results = [value for value, is_read in zip(body.outputs, read, strict=True) if is_read]
        operations = _needed(body.operations, results)
        used = {value for one in operations for value in one.inputs}.union(results)
        again = [
            is_read or (place < carry and body.inputs[consts + place] in used)
            for place, is_read in enumerate(read)
        ]
        if again == read:
            break
        read = again
    taken = [
        read[place - consts] if consts <= place < consts + carry else value in used
        for place, value in enumerate(body.inputs)
    ]
    return Operation(
        scan.name,
        tuple(compress(scan.inputs, taken)),
        tuple(compress(scan.outputs, read)),
        scan.params | {"num_consts": sum(taken[:consts]), "num_carry": sum(read[:carry])},
        Program(
            tuple(compress(body.inputs, taken)),
            tuple(compress(body.outputs, read)),
            tuple(operations),
        ),
    )
