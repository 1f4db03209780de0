"""Weights on their way in: dtypes, devices, memory."""

import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from safetensors.numpy import load_file, save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.copying import aligned_zeros, copy_into
from jax_lm.huggingface.directory import load_model, write_directory
from jax_lm.huggingface.export import write_weights
from jax_lm.huggingface.families import family_for
from jax_lm.models.gpt2 import GPT2


def assert_same(a: GPT2, b: GPT2) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_weights_go_to_their_sharding(exported: Path, model: GPT2):
    mesh = jax.make_mesh((1,), ("fsdp",), axis_types=(AxisType.Auto,))

    def last_axis(abstract: GPT2):
        return jax.tree.map(
            lambda leaf: NamedSharding(mesh, PartitionSpec(*[None] * (leaf.ndim - 1), "fsdp")),
            abstract,
        )

    read = load_model(exported, sharding_of=last_axis)
    assert read.blocks.attention.query_weight.sharding.spec[-1] == "fsdp"
    assert_same(read, model)


SHARDED = """
import sys
from pathlib import Path
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jax_lm.huggingface.directory import load_model

mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
names = {1: ("a",), 2: ("a", "b"), 3: (None, "a", "b"), 4: (None, "a", "b", None)}
def sharding_of(model):
    def one(leaf):
        spec = [name if size % 2 == 0 else None for name, size in zip(names[leaf.ndim], leaf.shape)]
        return NamedSharding(mesh, PartitionSpec(*spec))
    return jax.tree.map(one, model)

path = Path(sys.argv[1])
sharded = load_model(path, sharding_of=sharding_of)
assert len(sharded.blocks.feed_forward.up_weight.addressable_shards) == 4
jax.tree.map(np.testing.assert_array_equal, sharded, load_model(path))
"""


def test_each_of_four_devices_gets_its_own_part(exported: Path):
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, str(exported)],
        env={"PATH": "", "JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_result_has_the_dtype_asked_for(exported: Path, model: GPT2):
    read = load_model(exported, dtype=jnp.bfloat16)
    assert {leaf.dtype for leaf in jax.tree.leaves(read)} == {jnp.dtype(jnp.bfloat16)}
    assert_same(read, jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model))


def test_eight_bit_floats_are_read(exported: Path, model: GPT2):
    path = exported / "model.safetensors"
    kind = ml_dtypes.float8_e4m3fn
    save_file({name: x.astype(kind) for name, x in load_file(path).items()}, path)
    expected = jax.tree.map(lambda x: np.asarray(x).astype(kind).astype(np.float32), model)
    assert_same(load_model(exported), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_export_in_half_precision_is_half_as_large(model, tokenizer, tmp_path: Path, dtype):
    for name in ("float32", dtype):
        write_directory(model, tokenizer, tmp_path / name, card="", dtype=name)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float32", dtype)]
    assert 0.5 <= sizes[1] / sizes[0] < 0.7
    assert json.loads((tmp_path / dtype / "config.json").read_text())["dtype"] == dtype
    expected = jax.tree.map(lambda x: x.astype(dtype).astype(jnp.float32), model)
    assert_same(load_model(tmp_path / dtype), expected)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (
            "float16",
            1e6,
            r"float16 holds numbers up to 65504, .*; export in float32 or bfloat16",
        ),
        ("bfloat16", 3.4e38, r"bfloat16 holds numbers up to 3.38953e\+38, .*; export in float32$"),
    ],
)
def test_weights_too_large_for_the_dtype_are_named(model, tmp_path: Path, dtype, value, message):
    places = (model.final_norm.bias, model.blocks.feed_forward.up_weight)
    large = eqx.tree_at(
        lambda m: (m.final_norm.bias, m.blocks.feed_forward.up_weight),
        model,
        (places[0].at[0].set(-value), places[1].at[1, 0, 0].set(value)),
    )
    with pytest.raises(JaxLMError, match=message) as error:
        write_directory(large, None, tmp_path / "out", card="", dtype=dtype)
    named = "h.1.mlp.c_fc.weight, transformer.ln_f.bias;"
    assert f"larger ones: transformer.{named}" in str(error.value)
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_anyway_are_kept(model, tmp_path: Path):
    broken = eqx.tree_at(
        lambda m: m.final_norm.bias, model, model.final_norm.bias.at[0].set(-np.inf)
    )
    write_directory(broken, None, tmp_path / "out", card="", dtype="float16")
    assert load_model(tmp_path / "out").final_norm.bias[0] == -np.inf


def test_large_exports_fill_several_files(model, tokenizer, tmp_path: Path):
    write_directory(model, tokenizer, tmp_path / "out", card="", max_shard_size=3000)
    files = sorted(tmp_path.glob("out/*.safetensors"))
    assert len(files) > 2
    assert files[0].name == f"model-00001-of-{len(files):05d}.safetensors"
    tensors = [load_file(path) for path in files]
    sizes = [sum(x.nbytes for x in one.values()) for one in tensors]
    assert all(size <= 3000 or len(one) == 1 for size, one in zip(sizes, tensors, strict=True))
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(sizes)
    assert_same(load_model(tmp_path / "out"), model)
    write_directory(model, tokenizer, tmp_path / "out", card="")
    assert [path.name for path in tmp_path.glob("out/model*")] == ["model.safetensors"]


def test_what_is_written_is_what_safetensors_would_read(model, tmp_path: Path):
    (path,) = write_weights(model, family_for(model.config), tmp_path)
    tensors = load_file(path)
    vocab_size = model.config.vocab_size
    np.testing.assert_array_equal(
        tensors["transformer.wte.weight"], model.token_embedding[:vocab_size]
    )
    assert sum(x.size for x in tensors.values()) == sum(
        leaf.size for leaf in jax.tree.leaves(model)
    ) - 8 * (model.token_embedding.shape[0] - vocab_size)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_copies_put_axes_in_another_order(order):
    values = np.random.default_rng(0).normal(size=(2, 300, 270)).astype(np.float32)
    turned = values.transpose(order)
    out = aligned_zeros(turned.shape, np.dtype(np.float32))
    copy_into(out, turned)
    np.testing.assert_array_equal(out, turned)


def test_copies_cast_and_transpose():
    values = np.random.default_rng(0).normal(size=(700, 3)).astype(ml_dtypes.bfloat16)
    out = aligned_zeros((3, 700), np.dtype(np.float32))
    assert out.ctypes.data % 64 == 0
    assert not out.any()
    copy_into(out, values.T)
    np.testing.assert_array_equal(out, values.T.astype(np.float32))
    wide = aligned_zeros((700, 3), np.dtype(np.float16))
    copy_into(wide[:500], values[:500])
    np.testing.assert_array_equal(wide[:500], values[:500].astype(np.float16))
    assert not wide[500:].any()


PEAK = """
import sys
from pathlib import Path
import jax
from jax_lm.huggingface.directory import load_model

def memory(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

load_model(Path(sys.argv[1]) / "tiny")
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
model = jax.block_until_ready(load_model(Path(sys.argv[1]) / "large"))
print(memory("VmHWM") - before)
"""


@pytest.mark.slow
def test_memory_stays_near_the_size_of_the_checkpoint(model, tmp_path: Path):
    from dataclasses import replace

    large = replace(model.config, vocab_size=20_000, num_layers=12, num_heads=8, embed_dim=512)
    big = GPT2.init(jax.random.key(0), large)
    write_directory(model, None, tmp_path / "tiny", card="")
    write_directory(big, None, tmp_path / "large", card="")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    size = (tmp_path / "large" / "model.safetensors").stat().st_size
    assert int(done.stdout) <= 1.3 * size
    assert len(leaves_by_path(big)) == len(leaves_by_path(model))
