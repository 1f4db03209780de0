"""The whole journey on the standard library of this interpreter, told as it goes.

Every step is what a verb does; a step that is already done is not done again, so the journey can
be stopped at any moment and continued by the same command.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jax_lm.documents.base import iterate_texts
from jax_lm.documents.open import open_source
from jax_lm.errors import StoppedByUser
from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.results.result import Evaluation
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.pipeline import preprocess
from jax_lm.pretrained import open_decoder
from jax_lm.recipes.quickstart import quickstart as recipe
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.tokenizers.training import TrainingSettings, train_to_directory
from jax_lm.training.config import DataConfig
from jax_lm.training.run import train
from jax_lm.training.run_directory import RunDirectory

TRAIN = "stdlib?split=train"
HELD_OUT = "stdlib?split=validation"
VOCAB_SIZE = 1024
PROMPT = "def read_lines(path):"
EVALUATION_FILE = "evaluation.json"

Say = Callable[[str], None]


class Journey:
    """The journey's places and steps."""

    def __init__(self, run_dir: Path, say: Say = print) -> None:
        """Args: the run directory; what is told goes to ``say``, a line at a time."""
        self.run = RunDirectory(run_dir)
        self.data = run_dir.with_name(f"{run_dir.name}-data")
        self.tokenizer = self.data / "tokenizer"
        self.say = say
        self.command = _command()

    @property
    def is_done(self) -> bool:
        """Whether every step has been taken."""
        return (self.run.path / EVALUATION_FILE).is_file()

    def forget(self) -> None:
        """Remove what an earlier journey made."""
        for path in (self.run.path, self.data):
            shutil.rmtree(path, ignore_errors=True)

    def travel(self) -> None:
        """Take every step that has not been taken.

        Raises:
            StoppedByUser: Ctrl-C; the same command goes on.
        """
        started = time.monotonic()
        self.say("A small GPT-2 learns Python from this interpreter's standard library.\n")
        try:
            self._look_at_documents()
            self._learn_tokenizer()
            self._make_features()
            self._train()
            evaluation = self._evaluate()
            self._generate()
        except (KeyboardInterrupt, StoppedByUser):
            raise StoppedByUser(
                "stopped by Ctrl-C; everything done so far is kept, and the same command goes on"
            ) from None
        self.run.write_json(EVALUATION_FILE, evaluation.to_json())
        self.say(f"\nDone in {time.monotonic() - started:.0f} s.\n")
        self.tell_where()

    def tell_where(self) -> None:
        """Where everything lies, and what to try next."""
        run, train, held_out = self.run.path, self._prefix("train"), self._prefix("held-out")
        places = {
            run / "report.html": "curves, samples, configuration: open it in a browser",
            run / "final": "the model, which transformers loads as it is",
            self.data: "tokenizer and Parquet features",
        }
        width = max(len(str(place)) for place in places)
        for place, what in places.items():
            self.say(f"  {place!s:<{width}}  {what}")
        self.say("\nTry next:")
        command = self.command
        self.say(f"  {command} generate {run} --prompt 'class Stack:' --temperature 0.5")
        self.say(f"  {command} features show {held_out} -i 7")
        self.say(
            f"  {command} train quickstart --data.train {train} --data.validation {held_out} "
            f"--steps 4000 --run-dir {run}-longer"
        )

    def result(self) -> str:
        """The numbers of a journey that is done, in a line."""
        numbers = json.loads((self.run.path / EVALUATION_FILE).read_text())
        others = numbers["compressors_bits_per_byte"]
        yardstick = ", ".join(f"{name} {value:.3f}" for name, value in others.items())
        return f"{numbers['eval_bits_per_byte']:.3f} bits per byte on held-out files ({yardstick})"

    def _look_at_documents(self) -> None:
        self.say("1. Documents (jax-lm documents info stdlib)")
        for spec, use in ((TRAIN, "to learn from"), (HELD_OUT, "held out")):
            texts = list(iterate_texts(open_source(spec)))
            size = sum(len(text.encode()) for text in texts)
            self.say(f"   {len(texts)} files, {size / 1e6:.2f} MB {use}")

    def _learn_tokenizer(self) -> None:
        self.say("\n2. Tokenizer (jax-lm tokenizer train)")
        if not self.tokenizer.is_dir():
            texts = iterate_texts(open_source(TRAIN))
            settings = TrainingSettings(vocab_size=VOCAB_SIZE)
            for _ in train_to_directory(texts, settings, self.tokenizer, overwrite=False):
                pass
        tokenizer = load_tokenizer(self.tokenizer)
        last = range(tokenizer.vocab_size - 1, 0, -1)
        words = [text for text in map(tokenizer.token_text, last) if len(text.strip()) > 4]
        learned = "  ".join(word.strip() for word in words[:8])
        self.say(
            f"   {tokenizer.vocab_size:,} tokens of bytes; among the last it learned: {learned}"
        )

    def _make_features(self) -> None:
        self.say("\n3. Features (jax-lm preprocess)")
        options = PreprocessOptions(max_sequence_length=recipe().model.context_length)
        for spec, name in ((TRAIN, "train"), (HELD_OUT, "held-out")):
            prefix = self._prefix(name)
            totals = preprocess(spec, self.tokenizer, prefix, options, say=lambda line: None).totals
            self.say(
                f"   {prefix}: {totals.rows:,} rows, {totals.tokens:,} tokens, "
                f"{totals.num_bytes / totals.tokens:.2f} bytes each"
            )

    def _train(self) -> None:
        self.say("\n4. Training (jax-lm train quickstart)")
        if self.run.is_finished and self.run.report.is_file():
            self.say(f"   done already: {self.run.final}")
            return
        data = DataConfig(train=(self._prefix("train"),), validation=(self._prefix("held-out"),))
        config = replace(recipe(), data=data, run_dir=str(self.run.path), resume="auto")
        train(config, say=lambda line: self.say(f"   {line}"))

    def _evaluate(self) -> Evaluation:
        self.say("\n5. Evaluation (jax-lm evaluate), on whole held-out files")
        evaluation = evaluate(str(self.run.path), [HELD_OUT], EvaluateOptions())
        self.say(_indented(evaluation.table()))
        return evaluation

    def _generate(self) -> None:
        self.say("\n6. Generation (jax-lm generate)")
        model, tokenizer = open_decoder(str(self.run.path))
        settings = SamplingConfig(max_new_tokens=96, temperature=0.6, top_p=0.95)
        sample = continue_texts(model, tokenizer, [PROMPT], settings)[0]
        self.say(_indented(sample.prompt + sample.text, "   | "))

    def _prefix(self, name: str) -> str:
        return str(self.data / "features" / name)


def _command() -> str:
    """What a person has to type for ``jax-lm``: its path, where it is not on the PATH."""
    if shutil.which("jax-lm"):
        return "jax-lm"
    program = Path(sys.executable).with_name("jax-lm")
    return os.path.relpath(program) if program.exists() else "python -m jax_lm"


def _indented(text: str, margin: str = "   ") -> str:
    return "\n".join(margin + line for line in text.splitlines())
