"""Processes that stop together: what one is asked, all do, after the same step."""

import signal
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_lm.sharding.placing import replicated
from jax_lm.training.signals import StopRequest

Ending = Literal["signal", "time"]
NOTHING, TIME = 0, 1
"""What a process can wish for; a signal is its number and this."""


class Agreement:
    """Why to go no further, if so, as all processes of a run see it.

    Each call sends this process's wish to the others and reads what came of the call before, which
    the devices have long computed: nothing waits. So all must call it equally often, between the
    same steps. One process alone acts at once.
    """

    def __init__(self, stop: StopRequest, mesh: Mesh) -> None:
        """Ask about ``stop``; ``mesh`` is of all devices of all processes."""
        self._stop = stop
        self._several = jax.process_count() > 1
        self._pending: jax.Array | None = None
        stop.alone = not self._several
        if self._several:
            spread = PartitionSpec(mesh.axis_names)
            self._wishes = NamedSharding(mesh, spread)
            self._strongest: Any = jax.jit(jnp.max, out_shardings=replicated(mesh))
            self._size = mesh.size

    def __call__(self, *, time_is_up: bool = False) -> Ending | None:
        """Why to go no further.

        Args:
            time_is_up: by the clock of this process.
        """
        wish = self._wish(time_is_up)
        if self._several:
            asked, self._pending = self._pending, self._send(wish)
            wish = NOTHING if asked is None else int(asked)
            if wish > TIME:
                self._stop.agreed = signal.Signals(wish - TIME)
        if wish > TIME:
            return "signal"
        return "time" if wish == TIME else None

    @property
    def stopped(self) -> bool:
        """Whether a signal asks to stop, as far as the calls have told."""
        return bool(self._stop)

    def settle(self) -> None:
        """Hear what has been asked up to now, before what all must do or leave together."""
        self()
        if self._several:
            self()

    def _wish(self, time_is_up: bool) -> int:
        if self._stop.asked is not None:
            return TIME + int(self._stop.asked)
        return TIME if time_is_up else NOTHING

    def _send(self, wish: int) -> jax.Array:
        """The strongest wish of all processes, once the devices have found it."""
        shape = (self._size,)
        own = jax.make_array_from_callback(
            shape, self._wishes, lambda index: np.full(shape, wish, np.int32)[index]
        )
        strongest: jax.Array = self._strongest(own)
        return strongest
