"""Import of a 1 GB checkpoint: our reading of it beside safetensors' own loading.

    python benchmarks/convert.py [--layers 16]

A GPT-2 of width 1024 with random float32 values is written to a temporary folder. Each reader runs
in fresh processes, by turns, with the file in the page cache; times are medians. Memory is the
peak of a process above what it held, libraries loaded, before it began to read. All readers give
float32 arrays, as the default is: those of the bfloat16 file are twice its size.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import in_fresh_process, record

WIDTH, REPEATS = 1024, 5
READERS = ("safetensors", "jax_lm", "jax_lm_bfloat16", "jax_lm_sharded")


def main() -> None:
    """Write the checkpoint, run the readers by turns, record the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--measure", choices=READERS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.write:
        print(json.dumps({"bytes": write(given.folder, given.layers)}))
    elif given.measure:
        print(json.dumps(measure(given.measure, given.folder)))
    else:
        compare(given.layers)


def compare(layers: int) -> None:
    """Run every reader a few times."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("--folder", folder, "--layers", str(layers))
        written = in_fresh_process(__file__, "--write", *arguments)
        path = Path(folder) / "float32" / "model.safetensors"
        size = path.stat().st_size
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in READERS}
        for _ in range(REPEATS):
            for name, runs in found.items():
                runs.append(in_fresh_process(__file__, "--measure", name, *arguments))
    readers = {}
    for name, runs in found.items():
        readers[name] = {
            "seconds": statistics.median(run["seconds"] for run in runs),
            "all_seconds": sorted(run["seconds"] for run in runs),
            "peak_bytes": max(run["peak_bytes"] for run in runs),
        }
        print(name, readers[name])
    for name, reader in readers.items():
        file = written["bytes"] - size if name == "jax_lm_bfloat16" else size
        peak = reader["peak_bytes"]
        print(f"{name}: peak {peak / file:.2f} x its file, {peak / size:.2f} x the float32 arrays")
    shape = {"layers": layers, "width": WIDTH}
    record("convert", {**shape, "bytes": size, "written": written["bytes"], "readers": readers})


def write(folder: Path, layers: int) -> int:
    """A checkpoint as transformers writes it, in float32 and in bfloat16."""
    import jax

    from jax_lm.huggingface.directory import write_directory
    from jax_lm.models.gpt2 import GPT2, GPT2Config

    config = GPT2Config(vocab_size=50257, num_layers=layers, num_heads=16, embed_dim=WIDTH)
    model = GPT2.init(jax.random.key(0), config)
    for dtype in ("float32", "bfloat16"):
        write_directory(model, None, folder / dtype, card="", dtype=dtype)
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def measure(reader: str, folder: Path) -> dict[str, float]:
    """Seconds and memory of one reading."""
    directory = folder / ("bfloat16" if reader == "jax_lm_bfloat16" else "float32")
    with (directory / "model.safetensors").open("rb") as file:
        while file.read(1 << 24):
            pass
    read = _safetensors if reader == "safetensors" else _ours(reader == "jax_lm_sharded")
    before = _reset_peak()
    started = time.perf_counter()
    loaded = read(directory)
    seconds = time.perf_counter() - started
    del loaded
    return {"seconds": seconds, "peak_bytes": _memory("VmHWM") - before}


def _safetensors(directory: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(directory / "model.safetensors")


def _ours(sharded: bool) -> Any:
    """A reader, with JAX awake: its start is no part of reading."""
    import jax
    from jax.sharding import PartitionSpec

    from jax_lm.huggingface.directory import load_model

    if sharded:
        jax.config.update("jax_num_cpu_devices", 2)
    jax.block_until_ready(jax.numpy.zeros(1))

    def halved(model: Any) -> Any:
        mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))

        def sharding(leaf: Any) -> Any:
            spec = PartitionSpec(*[None] * (leaf.ndim - 1), "fsdp")
            return jax.sharding.NamedSharding(mesh, spec)

        return jax.tree.map(sharding, model)

    options = {"sharding_of": halved} if sharded else {}
    return lambda directory: jax.block_until_ready(load_model(directory, **options))


def _reset_peak() -> int:
    """Bytes held now, from which on the peak counts."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


if __name__ == "__main__":
    main()
