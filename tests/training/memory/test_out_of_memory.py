"""Out of memory is one sentence that says what was wanted, what is large and what helps."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from jax_lm.models.llama import LlamaConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import make_mesh
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory import out_of_memory, remedies
from jax_lm.training.memory.abstract_step import batch_shapes, trace_step
from jax_lm.training.memory.estimate import estimate
from jax_lm.training.memory.out_of_memory import OutOfMemory, bytes_wanted, out_of_memory_told
from tests.conftest import TinyFeatures

OF_XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.50GiB. [executable_name=x]"
LONG = TrainConfig(
    model=LlamaConfig(
        vocab_size=256, num_layers=2, num_heads=2, embed_dim=32, mlp_dim=64, context_length=128
    ),
    batch_size=16,
)
WIDE = replace(
    LONG,
    model=replace(LONG.model, vocab_size=4096, embed_dim=128, context_length=16),
    batch_size=1,
)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (OF_XLA, 4.5 * 2**30),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 320000000000 bytes.", 320e9),
        ("Failed to allocate request for 768.00MiB (805306368B) on device ordinal 0", 768 * 2**20),
        ("Used 19.5G of 15.5G hbm. Exceeded hbm capacity by 4.00G.", 4 * 2**30),
        ("Ran out of memory in memory space hbm. Used 19.5G of 15.5G hbm.", None),
        ("Unable to allocate 12.0 KiB for an array", 12 * 2**10),
    ],
)
def test_bytes_wanted_are_read_from_the_error(message: str, wanted: float | None) -> None:
    assert bytes_wanted(message) == wanted


def sentence_of(config: TrainConfig | None, message: str = OF_XLA) -> str:
    with pytest.raises(OutOfMemory) as caught, out_of_memory_told() as watch:
        if config is not None:
            watch.of(config, make_mesh(config.mesh), config.batch_size or 1)
        raise jax.errors.JaxRuntimeError(message)
    told = str(caught.value)
    assert "\n" not in told and caught.value.exit_code == 1
    return told


def test_long_rows_are_told_to_be_cut_up() -> None:
    told = sentence_of(LONG)
    assert told.startswith("out of memory: 4.83 GB more were asked for; a step takes about ")
    assert "most of it kept activations" in told
    assert "--accumulation-steps 2 (" in told and "--remat full (" in told
    assert "--optimizer" not in told


def test_a_large_state_is_told_to_be_made_smaller() -> None:
    told = sentence_of(WIDE)
    assert "optimizer moments" in told
    assert "--optimizer.name adafactor (" in told and "--accumulation-steps" not in told


def test_before_a_run_is_known_flags_are_named_all_the_same() -> None:
    told = sentence_of(None, "RESOURCE_EXHAUSTED: what XLA says without a number")
    assert told == "out of memory; try a smaller batch, or --accumulation-steps and --remat full"


def test_without_memory_for_an_estimate_the_sentence_is_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(out_of_memory, "remedies", fails)
    assert sentence_of(LONG).endswith("try a smaller model, or more devices (--mesh.fsdp)")
    monkeypatch.setattr(out_of_memory, "trace_step", fails)
    assert sentence_of(LONG).endswith(
        "try a smaller batch, or --accumulation-steps and --remat full"
    )


def test_other_errors_of_jax_pass() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), out_of_memory_told():
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")


def test_every_named_flag_helps_as_much_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "device_memory", lambda mesh: 6e6)
    mesh, batch = make_mesh(LONG.mesh), batch_shapes(LONG, 16)
    before = estimate(trace_step(LONG, mesh, batch))
    found = remedies.remedies(LONG, mesh, batch, before)
    parts = re.fullmatch(r"--accumulation-steps (\d+)", found[0].flag)
    assert parts is not None
    changed = replace(LONG, accumulation_steps=int(parts[1]))
    assert estimate(trace_step(changed, mesh, batch)).total == found[0].total < 6e6
    assert all(one.total < 0.85 * before.total for one in found)


def test_flags_fit_what_is_set_already() -> None:
    config = replace(
        LONG,
        remat="full",
        batch_size=1,
        dtype="bfloat16",
        init_from="model",
        optimizer=OptimizerConfig(moment_dtype="bfloat16"),
    )
    mesh, batch = make_mesh(config.mesh), batch_shapes(config, 1)
    found = estimate(trace_step(config, mesh, batch))
    flags = [one.flag for one in remedies.remedies(config, mesh, batch, found)]
    assert set(flags) <= {"--optimizer.name adafactor", "--lora.rank 16"}
    trained = replace(config, optimizer=OptimizerConfig(), lora=replace(config.lora, rank=4))
    assert remedies.remedies(trained, mesh, batch, found) == []


LIMITED = """
import resource, sys
from jax_lm.cli.main import main
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_a_batch_that_no_machine_holds_is_one_sentence(
    tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    size = "--model.num-layers 2 --model.num-heads 2 --model.embed-dim 64 --model.context-length 32"
    length = "--steps 1 --batch-size 32768 --evaluation.no-at-start"
    arguments = f"train --config c.json --data.train {tiny_features.train} {size} {length}".split()
    (tmp_path / "c.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(6 * 10**9), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^jax-lm: out of memory.*--accumulation-steps", done.stderr, re.MULTILINE)
