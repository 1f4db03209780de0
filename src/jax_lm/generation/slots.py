"""Texts decoded side by side, each in its slot: they enter and leave at any step."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jax_lm.errors import UsageError
from jax_lm.generation.decodable import CacheShape, for_decoding, longest_text, split_prompt
from jax_lm.generation.requests import Drawn, Finish, Request
from jax_lm.generation.settings import settings_of, stop_ids_of
from jax_lm.generation.slot_arrays import (
    Arrivals,
    Slots,
    empty_slots,
    enter,
    larger_slots,
    read,
    step,
)
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.models.layers.placement import PARAMETERS, Axis, parameter_rules
from jax_lm.sharding.rules import state_shardings

SMALLEST_BUCKET = 32
FEWEST_STOP_IDS = 128
"""Room for as many in every slot: what requests ask for then compiles nothing."""
ROW_FACTOR = 4
TOKENS_AT_ONCE = 2048
"""Of several prompts at most so many are read together: what memory it takes does not grow with
the number of slots, and on few devices more at once is no faster."""
FINISHES: tuple[Finish | None, ...] = (None, "stop", "length")


class SlotDecoder:
    """Continues several texts at once, a token of each at every step (continuous batching).

    Yu et al. 2022 (Orca, OSDI). Not thread-safe: one thread owns it.

    Few programs are compiled: lengths are powers of two, numbers of texts powers of four. Prompts
    are read for each of both, a step is taken for each of both, and putting what was read into its
    slots, which is quick to compile, is compiled for each pair of them. Slots that no text is in
    are not computed, once all were free: so a lone text is as fast as with one slot.
    """

    def __init__(
        self,
        model: Decoder | EncoderDecoder,
        *,
        num_slots: int,
        eos_id: int | None,
        max_length: int | None = None,
        dtype: str = "float32",
        mesh: Mesh | None = None,
        rules: Mapping[str, Axis] = PARAMETERS,
    ) -> None:
        """Make a model ready: its blocks are copied, one by one.

        Args:
            model: a decoder or an encoder-decoder.
            num_slots: texts at once, at most.
            eos_id: the token that ends a text; None: none does.
            max_length: tokens of the longest text, prompt included (of an encoder-decoder: of the
                longest input, and of the longest output); None: the model's context.
            dtype: of the computation and of the cache.
            mesh: slots are split over its rows, heads over its tensor axis; None: the mesh that is
                set, if any.
            rules: which axes of the mesh split which of the parameters, where one is given.

        Raises:
            UsageError: there is no slot, or the model has no such length.
        """
        if num_slots < 1:
            raise UsageError(f"the number of slots is {num_slots}, expected 1 or more")
        self._context = longest_text(model, max_length)
        self._mesh, self._rules, self._eos_id = mesh, rules, eos_id
        if mesh is not None:
            model = jax.device_put(model, state_shardings(model, model, mesh, rules))
        with self._on_mesh():
            self._model = for_decoding(model, dtype)
        self._requests: list[Request | None] = [None] * num_slots
        self._shape = CacheShape(0, 0, 0)
        self._num_stop_ids = FEWEST_STOP_IDS
        self._slots: Slots | None = None

    @property
    def num_slots(self) -> int:
        """Texts at once, at most."""
        return len(self._requests)

    @property
    def num_free(self) -> int:
        """Slots without a text."""
        return self._requests.count(None)

    @property
    def context_length(self) -> int:
        """Tokens of the longest text; of an encoder-decoder, of input and output each."""
        return self._context

    @property
    def model(self) -> Decoder | EncoderDecoder:
        """As it decodes: in the dtype of the computation, with its blocks in a list."""
        return self._model

    @property
    def mesh(self) -> Mesh | None:
        """As given."""
        return self._mesh

    @property
    def intact(self) -> bool:
        """Whether the texts in their slots can go on: a failed ``admit`` mostly leaves them so."""
        return self._slots is not None or self.num_free == self.num_slots

    def prompts_at_once(self, length: int) -> int:
        """Prompts of such a length that are read together at most; the others follow."""
        width, rows = bucket(length, self._context), 1
        while rows < self.num_slots and self._some(rows + 1) * width <= TOKENS_AT_ONCE:
            rows = self._some(rows + 1)
        return rows

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Read prompts; each request's first token comes out of the next ``step``.

        Returns:
            The slot of each request, which its tokens carry until it finishes.

        Raises:
            UsageError: a prompt is empty, too long or has ids that the model lacks, or fewer slots
                are free; then none was admitted.
        """
        if len(requests) > self.num_free:
            raise UsageError(f"{len(requests)} requests for {self.num_free} free slots")
        for request in requests:
            self._check(request)
        if not requests:
            return []
        free = [slot for slot, taken in enumerate(self._requests) if taken is None]
        chosen = free[: len(requests)]
        with self._on_mesh():
            self._slots = self._with_room(requests, max(chosen) + 1)
            for part in self._parts(requests):
                self._seat([requests[i] for i in part], [chosen[i] for i in part])
        for slot, request in zip(chosen, requests, strict=True):
            self._requests[slot] = request
        return chosen

    def step(self) -> list[Drawn]:
        """One token for every busy slot; a slot whose text finished is free again."""
        busy = np.array([one is not None for one in self._requests[: self._shape.rows]], bool)
        slots = self._slots
        if slots is None or not busy.any():
            return []
        with self._on_mesh():
            self._slots = None  # its arrays are given up
            self._slots, drawn = step(self._model, slots, busy, np.int32(self._context))
        ids, log_probs, finishes = (np.asarray(array).tolist() for array in drawn)
        result = []
        for slot in np.flatnonzero(busy).tolist():
            finish = FINISHES[finishes[slot]]
            result.append(Drawn(slot, ids[slot], log_probs[slot], finish))
            if finish is not None:
                self._requests[slot] = None
        return result

    def release(self, slot: int) -> None:
        """Stop a text; its slot is free. One that is free already stays so."""
        self._requests[slot] = None

    def _parts(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Indices of requests that are read together: prompts of similar lengths."""
        lengths = [len(request.prompt) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: -lengths[i])
        while order:
            count = self.prompts_at_once(lengths[order[0]])
            yield order[:count]
            del order[:count]

    def _seat(self, requests: Sequence[Request], chosen: Sequence[int]) -> None:
        slots = self._slots
        # If memory is short it shows here, where the other texts are not given up yet.
        arrived = jax.block_until_ready(read(self._model, self._arrivals(requests)))
        self._slots = None  # its arrays are given up
        self._slots = enter(slots, arrived, self._places(chosen))

    def _check(self, request: Request) -> None:
        length, size = len(request.prompt), self._model.config.vocab_size
        if not length:
            raise UsageError("a prompt is empty, and there is nothing to start from: write one")
        if length > self._context:
            raise UsageError(
                f"a prompt of {length} tokens is longer than the {self._context} that the model "
                "takes: shorten it"
            )
        wrong = [i for i in (*request.prompt, *request.sampling.stop_ids) if not 0 <= i < size]
        if wrong:
            raise UsageError(f"token id {wrong[0]} is not one of the model's {size}")

    def _with_room(self, requests: Sequence[Request], rows: int) -> Slots:
        """Slots in which the texts of these requests fit beside those that are there."""
        needed, stop_ids = self._needed(requests, rows)
        idle = self.num_free == self.num_slots
        if not idle:
            needed = CacheShape(*map(max, needed, self._shape))
            stop_ids = max(stop_ids, self._num_stop_ids)
        if self._slots is not None and (needed, stop_ids) == (self._shape, self._num_stop_ids):
            return self._slots
        if idle:
            self._slots = None  # not both at once
        made: Slots = empty_slots(self._model, shape=needed, num_stop_ids=stop_ids)
        if self._slots is not None:
            made = larger_slots(self._slots, made)
        jax.block_until_ready(made)
        self._shape, self._num_stop_ids = needed, stop_ids
        return made

    def _needed(self, requests: Sequence[Request], rows: int) -> tuple[CacheShape, int]:
        remembers = isinstance(self._model, EncoderDecoder)
        slots, memory = 1, 0
        for request in requests:
            length = len(request.prompt)
            if remembers:
                memory, length = max(memory, length), 1
            slots = max(slots, length + request.sampling.max_new_tokens - request.made)
        stop_ids = max(len(stop_ids_of(request, self._eos_id)) for request in requests)
        shape = CacheShape(
            self._rows(rows),
            bucket(slots, self._context),
            bucket(memory, self._context) if remembers else 0,
        )
        return shape, max(FEWEST_STOP_IDS, power_of_two(stop_ids))

    def _rows(self, count: int) -> int:
        """Rows for so many slots; on a mesh always all, which its devices share evenly."""
        mesh = jax.sharding.get_abstract_mesh()
        return self.num_slots if mesh.size > 1 else self._some(count)

    def _some(self, count: int) -> int:
        """The next power of four, at most all slots."""
        rows = 1
        while rows < count:
            rows *= ROW_FACTOR
        return min(rows, self.num_slots)

    def _places(self, slots: Sequence[int]) -> np.ndarray:
        padding = self._some(len(slots)) - len(slots)
        return np.array([*slots, *[self.num_slots] * padding], np.int32)

    def _arrivals(self, requests: Sequence[Request]) -> Arrivals:
        """Arrays for the compiled part, of a size out of few."""
        split = [split_prompt(self._model, request.prompt) for request in requests]
        rows = self._some(len(requests))
        width = bucket(max(len(prompt) for prompt, _ in split), self._context)
        input_ids = np.zeros((rows, width), np.int32)
        for row, (prompt, _) in enumerate(split):
            input_ids[row, : len(prompt)] = prompt

        def filled(values: Sequence[int]) -> np.ndarray:
            return np.array([*values, *[0] * (rows - len(values))], np.int32)

        words = [request.random_words for request in requests]
        words += words[-1:] * (rows - len(words))
        arrays: dict[str, Any] = {
            "input_ids": input_ids,
            "lengths": filled([len(prompt) for prompt, _ in split]),
            "last": filled([last for _, last in split]),
            "made": filled([request.made for request in requests]),
            "random_words": np.array(words, np.uint32),
        }
        settings = settings_of(requests, rows, self._num_stop_ids, self._eos_id)
        return Arrivals(settings=settings, **arrays)

    @contextmanager
    def _on_mesh(self) -> Iterator[None]:
        if self._mesh is None:
            yield
        else:
            with parameter_rules(self._rules), jax.set_mesh(self._mesh):
                yield


def bucket(length: int, context: int) -> int:
    """The next power of two, from 32 on, and at most the context."""
    return min(context, max(SMALLEST_BUCKET, power_of_two(length)))


def power_of_two(number: int) -> int:
    """The next one that is not less."""
    return 1 << max(0, number - 1).bit_length()
