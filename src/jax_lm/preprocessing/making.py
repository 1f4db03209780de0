"""The making of one feature set: write the shards that are missing, check, publish."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from jax_lm.documents.base import DocumentSource
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.beam import beam_flags, local_threads, run_on_beam
from jax_lm.preprocessing.copies import SignatureWriting, mark_copies
from jax_lm.preprocessing.cutting.base import KINDS, Cutting
from jax_lm.preprocessing.encoding import engine_for
from jax_lm.preprocessing.manifest import Manifest, SpecialIds
from jax_lm.preprocessing.notes import set_notes
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.partial import PartialSet, Say
from jax_lm.preprocessing.progress import shown_progress
from jax_lm.preprocessing.publishing import publish
from jax_lm.preprocessing.shard_writing import ShardWriting, lend_tokenizer
from jax_lm.preprocessing.shards import Run, Shard, ShardResult, plan_runs, plan_shards
from jax_lm.preprocessing.special_ids import choose_special_ids
from jax_lm.preprocessing.threads import InThreads
from jax_lm.tokenizers.encoders.base import Engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer


@dataclass(frozen=True)
class Making:
    """One set being made; the text of the work is ``run``."""

    source: DocumentSource
    tokenizer_dir: Path
    tokenizer: PretrainedTokenizer
    options: PreprocessOptions
    partial: PartialSet
    say: Say

    def run(self) -> Manifest:
        """Make the set.

        Raises:
            BeingMade: another process is making the same set.
            JaxLMError: a shard failed, or there is too little text. Finished shards are kept.
        """
        try:
            return self._make()
        finally:
            self.partial.release()

    def _make(self) -> Manifest:
        special = choose_special_ids(
            self.tokenizer, self.options.separator_token, self.options.pad_id
        )
        shards = plan_shards(self.source, self.options.shard_size)
        if not shards:
            raise JaxLMError(f"{self.source.name} holds no documents")
        self.partial.begin(self.say)
        started, kept = time.perf_counter(), _text_bytes(self._found(shards).values())
        try:
            engine = engine_for(
                self.source, shards, self.tokenizer, self.options.engine, say=self.say
            )
            lend_tokenizer(self.tokenizer.use(engine.name))
            self._mark_copies(shards)
            results = self._write_shards(shards, special, engine.name)
        except JaxLMError:
            self._keep_or_discard(shards)
            raise
        except KeyboardInterrupt:
            self._keep_or_discard(shards)
            self.say("stopped: the same command goes on")
            raise
        self._refuse_too_little(results)
        seconds, megabytes = time.perf_counter() - started, (_text_bytes(results) - kept) / 1e6
        rate = f"{megabytes / seconds:.2f} MB/s"
        self.say(f"preprocessed {megabytes:.2f} MB of text in {seconds:.1f} s, {rate}")
        manifest = publish(
            self.partial,
            results,
            options=self.options,
            source_name=self.source.name,
            tokenizer=self.tokenizer,
            special=special,
            engine=f"{engine.name} {engine.version}",
        )
        for note in set_notes(manifest, self.options):
            self.say(note)
        return manifest

    def _mark_copies(self, shards: list[Shard]) -> None:
        if self.options.deduplicate == "none":
            return
        folder, near = self.partial.folder.absolute(), self.options.deduplicate == "near"
        self._run(shards, SignatureWriting(source=self.source, folder=folder, near=near).write)
        mark_copies(folder, shards, near=near, say=self.say)

    def _write_shards(
        self, shards: list[Shard], special: SpecialIds, engine: Engine
    ) -> list[ShardResult]:
        """Write what is missing until every shard has targets of the kind that one needs."""
        kind, started = self.options.least_kind, False
        while True:
            found = self._found(shards)
            kind = max([kind, *(result.kind for result in found.values())], key=KINDS.index)
            missing = [s for s in shards if s.index not in found or found[s.index].kind != kind]
            if not missing:
                return [found[shard.index] for shard in shards]
            if started and len(found) < len(shards):
                raise JaxLMError(
                    f"{self.partial.folder}: workers left nothing here; "
                    "they must share this folder with the process that starts them"
                )
            if found:
                verb = "rewriting with " + kind if started else "continuing an earlier run"
                self.say(f"{verb}: {len(missing)} of {len(shards)} shards to do")
            writing = self._writing(engine, self.options.cutting(special, kind))
            with shown_progress(self.partial.folder, len(missing), self.say):
                self._run(missing, writing.write)
            started = True

    def _found(self, shards: list[Shard]) -> dict[int, ShardResult]:
        strict = self.options.on_bad_record == "stop"
        found = {}
        for shard in shards:
            result = self.partial.result(shard.index)
            if result and result.place == shard.place and not (strict and result.rejected):
                found[shard.index] = result
        return found

    def _writing(self, engine: Engine, cutting: Cutting) -> ShardWriting:
        return ShardWriting(
            source=self.source,
            tokenizer_directory=_from_anywhere(self.tokenizer_dir),
            tokenizer_fingerprint=self.tokenizer.fingerprint(),
            folder=self.partial.folder.absolute(),
            engine=engine,
            cutting=cutting,
            parse_special=self.options.parse_special_tokens,
            deduplicate=self.options.deduplicate != "none",
        )

    def _run(self, shards: list[Shard], write: Callable[[Run], int]) -> None:
        options = self.options
        self.partial.take_failure()  # of a run that was killed
        runs, flags = plan_runs(shards), beam_flags(options)
        if (threads := local_threads(options)) > 1:
            run_on_beam([runs], InThreads(write, threads), flags)
        else:
            run_on_beam(runs, write, flags)
        if failure := self.partial.take_failure():
            raise failure

    def _keep_or_discard(self, shards: list[Shard]) -> None:
        done = len(self._found(shards))
        if done:
            self.say(f"{done} of {len(shards)} shards are done and kept in {self.partial.folder}")
        else:
            self.partial.discard()

    def _refuse_too_little(self, results: list[ShardResult]) -> None:
        least = self.options.row_length + (self.options.least_kind != "drawn")
        tokens = sum(result.tokens for result in results)
        name = self.source.name
        rejected = [record for result in results for record in result.rejected]
        if not any(result.documents for result in results):
            problem = f"{name} holds no documents"
            if reasons := _reasons(results):
                problem = f"no document of {name} is left{reasons}"
            if rejected:
                first = "{file}:{line}: {reason}".format_map(rejected[0])
                problem += f": {len(rejected)} records were rejected, the first was {first}"
        elif not any(result.text_bytes for result in results):
            problem = f"{name} is empty: its documents have no text"
        elif not any(result.targets for result in results):
            problem = f"{name} gives no row with anything to score{_reasons(results)}"
        elif self.options.mode == "packed" and tokens < least:
            problem = (
                f"{name} gives {tokens} tokens, fewer than one row of {least}: give more "
                "text or a smaller --max-sequence-length"
            )
        else:
            return
        self.partial.discard()
        raise JaxLMError(problem)


def _from_anywhere(tokenizer: Path) -> Path:
    """A path that a worker in another directory can follow; a name on the hub as it is."""
    return tokenizer.absolute() if tokenizer.exists() else tokenizer


def _text_bytes(results: Iterable[ShardResult]) -> int:
    return sum(result.text_bytes for result in results)


def _reasons(results: Iterable[ShardResult]) -> str:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.dropped)
    reasons = ", ".join(f"{count} {reason}" for reason, count in total.most_common())
    return f" (left out: {reasons})" if reasons else ""
