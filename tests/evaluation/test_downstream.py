import json
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import pytest

from jax_lm.cli.main import main
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.evaluation.downstream import adapter, running
from jax_lm.evaluation.downstream.__main__ import main as harness_main
from jax_lm.evaluation.downstream.adapter import Adapter, opened_model, options_of
from jax_lm.evaluation.downstream.model import HarnessModel, HarnessOptions
from jax_lm.evaluation.downstream.running import run_harness
from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.scoring.output_scores import score_outputs
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.roberta import Roberta, RobertaConfig
from jax_lm.models.t5 import T5, T5Config
from jax_lm.pretrained import OpenedModel
from jax_lm.tokenizers.base import start_id
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from tests.evaluation.harness_tasks import by_command, write_tasks

TEXT = "Once there was a cat. The cat sat on the mat, and a dog saw it. The dog was happy. "
WINDOW = 32


@pytest.fixture(scope="module")
def tokenizer():
    return train_byte_level_bpe(iter([TEXT] * 4), vocab_size=300)


@pytest.fixture(scope="module")
def decoder(tokenizer, tmp_path_factory) -> str:
    shape = {"num_layers": 2, "num_heads": 2, "embed_dim": 16, "init_std": 0.4}
    config = GPT2Config(vocab_size=tokenizer.vocab_size, context_length=WINDOW, **shape)
    folder = tmp_path_factory.mktemp("decoder") / "model"
    write_directory(GPT2.init(jax.random.key(0), config), tokenizer, folder, card="# tiny")
    return str(folder)


@pytest.fixture(scope="module")
def answers(decoder) -> HarnessModel:
    return opened_model(decoder, HarnessOptions(batch_size=4, max_new_tokens=5))


class Asked(NamedTuple):
    """A request of the harness."""

    args: tuple[Any, ...]


class Told:
    """The harness's cache."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def add_partial(self, kind: str, arguments: Any, answer: Any) -> None:
        self.kinds.append(kind)


@pytest.fixture
def asked(answers) -> Adapter:
    one = Adapter(opened=answers)
    one.cache_hook = Told()
    return one


def test_whole_texts_are_scored_as_by_the_disjoint_method(decoder, asked, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT * 2)
    found = evaluate(decoder, [str(tmp_path / "text.txt")], EvaluateOptions(method="disjoint"))
    (score,) = asked.loglikelihood_rolling([Asked((TEXT * 2,))])
    assert score == pytest.approx(-found.everything.loss_sum, rel=1e-6)
    assert asked.cache_hook.kinds == ["loglikelihood_rolling"]


def test_pairs_are_scored_after_their_contexts(answers, asked):
    context, text = asked.tok_encode("The cat"), asked.tok_encode(" sat", add_special_tokens=False)
    found = asked._loglikelihood_tokens([(("The cat", " sat"), context, text)])
    (expected,) = score_outputs(answers.opened.model, [(context, text)])
    assert found == [(pytest.approx(expected.log_prob), expected.is_greedy)]


def test_texts_go_on_greedily_until_a_string_of_the_task(answers, asked):
    opened = answers.opened
    greedy = SamplingConfig(max_new_tokens=8, temperature=0.0)
    prompts = ["The cat", "A dog saw"]
    free = [one.text for one in continue_texts(opened.model, opened.tokenizer, prompts, greedy)]
    stop = free[0][2:4]
    requests = [
        Asked((prompts[0], {"until": [stop], "max_gen_toks": 8, "do_sample": False})),
        Asked((prompts[1], {"max_new_tokens": 8, "temperature": 0.0})),
        Asked((prompts[1], {"until": "\n\n\n"})),
        Asked((prompts[1], {"max_gen_toks": 8, "do_sample": True, "temperature": 1.0, "seed": 3})),
        Asked((prompts[1], {"max_gen_toks": 8, "num_beams": 2, "repetition_penalty": 1.2})),
    ]
    found = asked.generate_until(requests)
    assert found[0] == free[0][: free[0].index(stop)]
    assert found[1] == free[1]
    assert free[1].startswith(found[2]) and found[2] != free[1], "five tokens unless asked"
    assert len(found) == 5 and found[3] != found[1]


def test_long_contexts_keep_their_end_and_longer_texts_are_refused(asked):
    words = {"max_gen_toks": 4}
    long, cut = asked.generate_until([Asked((TEXT * 3, words)), Asked((TEXT * 2, words))])
    assert long == cut
    with pytest.raises(UsageError, match="a task asks for 32 new tokens, and the model's"):
        asked.generate_until([Asked(("A", {"max_gen_toks": WINDOW}))])


def test_what_is_read_first(answers, tokenizer):
    first = start_id(tokenizer)
    assert answers.first_id == first
    assert answers.encode("cat") == tokenizer.encode_batch(["cat"]).ids.tolist()
    bare = answers.opened._replace(
        tokenizer=train_byte_level_bpe([TEXT], vocab_size=270, special_tokens=())
    )
    with pytest.raises(UsageError, match="neither BOS nor EOS"):
        _ = HarnessModel(bare, HarnessOptions()).first_id


@pytest.mark.slow
def test_an_encoder_decoder_reads_context_and_continuation_apart(tokenizer):
    shape = {"num_layers": 1, "num_heads": 2, "embed_dim": 16, "decoder_start_id": 0}
    config = T5Config(vocab_size=tokenizer.vocab_size, context_length=WINDOW, **shape)
    opened = OpenedModel(T5.init(jax.random.key(0), config), tokenizer, Path("t5"), Path("t5"))
    answers = HarnessModel(opened, HarnessOptions(max_new_tokens=3))
    one = Adapter(opened=answers)
    one.cache_hook = Told()
    assert one.backend == "seq2seq"
    assert one.tok_encode("cat")[-1] == tokenizer.eos_id
    assert one.tok_encode("cat", add_special_tokens=False)[-1] != tokenizer.eos_id
    assert len(one.generate_until([Asked(("The cat", {}))])) == 1
    assert one.loglikelihood_rolling([Asked((TEXT,))])[0] < 0
    assert (one.max_length, one.tokenizer_name) == (WINDOW, "t5")


def test_a_masked_model_and_a_length_beyond_the_context_are_refused(answers, tokenizer):
    config = RobertaConfig(vocab_size=300, num_layers=1, num_heads=1, embed_dim=8, pad_id=1)
    model = jax.eval_shape(lambda: Roberta.init(jax.random.key(0), config))
    with pytest.raises(UsageError, match="roberta is of kind encoder"):
        HarnessModel(OpenedModel(model, tokenizer, Path("x"), Path("x")), HarnessOptions())
    with pytest.raises(UsageError, match="max_length is 99, and the model's context is 32"):
        HarnessModel(answers.opened, HarnessOptions(max_length=99))


def test_arguments_of_the_harness_s_command_line():
    options = options_of("8", {"dtype": "bfloat16", "add_bos_token": True, "device": "cuda"})
    assert options == HarnessOptions(batch_size=8, dtype="bfloat16", add_bos=True)
    assert options_of("auto", {}).batch_size == 16
    with pytest.raises(UsageError, match="--model_args dtypo: jax-lm takes pretrained, dtype"):
        options_of(1, {"dtypo": "float32"})
    with pytest.raises(UsageError, match="batch_size is 0, expected 1 or more"):
        options_of(0, {})


def test_without_the_harness_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    adapter.adapter_class.cache_clear()
    with pytest.raises(JaxLMError, match=r"needs lm_eval: pip install 'jax-lm\[lm-eval\]'"):
        run_harness("nowhere", ["wikitext"])


class FakeHarness:
    """What we need of lm_eval, with one task and one group."""

    __version__ = "0.0"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: dict[str, Any] = {}
        self.registered: list[str] = []
        fake = SimpleNamespace(
            TemplateLM=type("TemplateLM", (), {}),
            TaskManager=lambda include_path: SimpleNamespace(all_tasks=["piqa", "all"]),
            simple_evaluate=self.evaluate,
            register_model=lambda name: lambda made: self.registered.append(name) or made,
            make_table=lambda results, kind="results": f"{kind}: {sorted(results[kind])}",
            cli_evaluate=lambda: self.asked.update(command=True),
            __version__="0.0",
        )
        for name in ("", ".api.model", ".api.registry", ".evaluator", ".tasks", ".utils"):
            monkeypatch.setitem(sys.modules, f"lm_eval{name}", fake)
        monkeypatch.setitem(sys.modules, "lm_eval.__main__", fake)
        adapter.adapter_class.cache_clear()

    def evaluate(self, **asked: Any) -> dict[str, Any]:
        self.asked = asked
        if asked["limit"] == 0:
            raise FileNotFoundError("piqa.jsonl: gone\nand more")
        numbers = {"acc,none": math.nan, "alias": "piqa", "size": 3, "function": len}
        return {"results": {"piqa": numbers}, "groups": {"all": {"acc,none": 0.5}}, "configs": {}}


@pytest.fixture
def harness(monkeypatch) -> Iterator[FakeHarness]:
    yield FakeHarness(monkeypatch)
    adapter.adapter_class.cache_clear()


def test_the_verb_runs_tasks_and_writes_their_numbers(harness, decoder, tmp_path, capsys):
    output = tmp_path / "out.json"
    flags = ["--lm-eval", "piqa,all", "--limit", "7", "--batch-size", "3", "--output", str(output)]
    assert main(["evaluate", decoder, *flags]) == 0
    out = capsys.readouterr().out
    assert "results: ['piqa']" in out and "groups: ['all']" in out
    assert harness.registered == ["jax-lm"]
    assert (harness.asked["tasks"], harness.asked["limit"]) == (["piqa", "all"], 7)
    assert harness.asked["model"].answers.options.batch_size == 3
    written = json.loads(output.read_text())
    assert written["results"]["piqa"]["acc,none"] is None
    assert written["lm_eval_version"] == "0.0"


def test_tasks_that_cannot_be_run_are_refused(harness, decoder, tmp_path):
    with pytest.raises(UsageError, match=r"--lm-eval piq: no such task.*; did you mean 'piqa'"):
        running.run_harness(decoder, ["piq"])
    with pytest.raises(UsageError, match=r"--lm-eval pixels: no such task \([^;]*\)$"):
        running.run_harness(decoder, ["pixels"])
    with pytest.raises(JaxLMError, match="no such directory of tasks"):
        running.run_harness(decoder, ["piqa"], include=tmp_path / "nowhere")
    with pytest.raises(JaxLMError, match=r"of a task cannot be read \(piqa\.jsonl: gone\)$"):
        running.run_harness(decoder, ["piqa"], limit=0)


def test_the_harness_s_own_command_knows_our_models(harness):
    harness_main()
    assert (harness.registered, harness.asked) == (["jax-lm"], {"command": True})


@pytest.mark.slow
def test_the_harness_finds_the_same_with_its_own_hf_model(decoder, shared_data, tmp_path):
    text = (shared_data / "corpora/wikitext2/test.txt").read_text(encoding="utf-8")
    pages = [text[start : start + 1500] for start in range(0, 12_000, 1500)]
    tasks = write_tasks(tmp_path / "tasks", pages)
    theirs = by_command(
        "lm_eval",
        f"--model hf --model_args pretrained={decoder},dtype=float32,max_length={WINDOW}"
        " --device cpu --batch_size 4",
        tasks,
        tmp_path / "theirs",
    )
    ours = by_command(
        "jax_lm.evaluation.downstream",
        f"--model jax-lm --model_args pretrained={decoder} --batch_size 4",
        tasks,
        tmp_path / "ours",
    )
    assert ours["texts"] == theirs["texts"]
    for name, metrics in METRICS.items():
        for metric in metrics:
            key = f"{metric},none"
            assert ours[name][key] == pytest.approx(theirs[name][key], rel=1e-4), key
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"text": p}) + "\n" for p in pages))
    options = EvaluateOptions(method="disjoint", compressors=False)
    own = evaluate(decoder, [str(tmp_path / "pages.jsonl")], options).everything.numbers()
    for metric in METRICS["own_pages"]:
        assert own[metric] == pytest.approx(theirs["own_pages"][f"{metric},none"], rel=1e-4)


METRICS = {
    "own_pages": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "own_choices": ("acc", "acc_norm"),
    "own_texts": ("exact_match",),
}


@pytest.mark.slow
def test_tasks_run_from_python_too(decoder, tmp_path):
    pytest.importorskip("lm_eval")
    tasks = write_tasks(tmp_path / "tasks", [TEXT * 3, TEXT])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run_harness(decoder, ["own_choices"], include=tasks, limit=5)
        assert "own_choices" in found.table()
        values = found.to_json()
        assert 0 <= values["results"]["own_choices"]["acc,none"] <= 1
        with pytest.raises(
            UsageError, match=r"own_choice: no such task.*; did you mean 'own_choices'"
        ):
            run_harness(decoder, ["own_choice"], include=tasks)
        (tasks / "choices.jsonl").unlink()
        with pytest.raises(JaxLMError, match="the documents of a task cannot be read"):
            run_harness(decoder, ["own_choices"], include=tasks)
    with pytest.raises(JaxLMError, match="no such directory of tasks"):
        run_harness(decoder, ["own_pages"], include=tmp_path / "nowhere")
