"""What happens before the first request."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.start import load_served, warm_up
from jax_lm.tokenizers.base import Tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def directory(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"context_length": 32, "num_layers": 1, "num_heads": 2, "embed_dim": 24}
    config = GPT2Config(vocab_size=tokenizer.vocab_size, **sizes)
    path = tmp_path_factory.mktemp("served") / "tiny"
    write_directory(GPT2.init(jax.random.key(0), config), tokenizer, path, card="")
    return path


def test_memory_that_is_not_enough_is_seen_before_the_first_request(scripted: Any) -> None:
    """The longest prompts are read while all other slots hold texts as long as may be."""
    decoder, held = scripted(num_slots=4, context_length=100), []
    admit = decoder.admit

    def watched(requests: Any) -> Any:
        held.extend((len(one.prompt), len(decoder.slots)) for one in requests)
        return admit(requests)

    decoder.admit = watched
    warm_up(decoder, 5)
    assert held[:4] == [(1, 0), (1, 0), (100, 2), (100, 2)]
    assert {one.sampling.max_new_tokens for one in decoder.admitted[:2]} == {100}
    assert decoder.num_free == 4
    with pytest.raises(RuntimeError, match="out of memory"):
        warm_up(scripted(num_slots=4, most_read=1), 5)


@pytest.mark.slow
def test_the_weights_are_in_memory_once(directory: Path, tokenizer: Tokenizer) -> None:
    def tables() -> int:
        gc.collect()
        return sum(
            one.ndim == 2 and one.shape[0] >= tokenizer.vocab_size for one in jax.live_arrays()
        )

    before = tables()
    served = load_served(str(directory), ServeOptions(max_concurrent=1), dtype="bfloat16")
    assert tables() == before + 1
    served.scoring._score([([1, 2], [3])])
    assert tables() == before + 1


@pytest.mark.slow
def test_devices_share_the_work(directory: Path) -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    found = []
    for environment, mesh in (({}, {}), (flags, {"data": 2, "tensor": 2}), (flags, {"fsdp": 4})):
        done = subprocess.run(
            [sys.executable, "-m", "tests.serving.served_on_devices", directory, json.dumps(mesh)],
            check=True,
            stdout=subprocess.PIPE,
            timeout=300,
            env=os.environ | environment,
            cwd=ROOT,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (alone, one), *shared = [(given["texts"], given["devices"]) for given in found]
    assert one == 1
    assert shared == [(alone, 4)] * 2
    for given in found:
        assert given["scores"] == pytest.approx(found[0]["scores"], rel=1e-5)
