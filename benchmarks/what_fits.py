"""The largest preset that fits devices of 8 to 80 GB, from the estimate of ``train --dry-run``.

    python benchmarks/what_fits.py

Needs no accelerator: steps are traced on shapes, on one and on eight fake devices, and estimated as
on a GPU or TPU. Beside it, estimates and XLA's own figures of the cases in
tests/training/memory/compiled_sizes.py, which are compiled ahead of time for a CPU.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from recording import in_fresh_process, record

from jax_lm.models.low_rank import LoraConfig
from jax_lm.models.presets import PRESETS
from jax_lm.models.registry import FamilyConfig, count_parameters
from jax_lm.sharding.mesh import MeshConfig, make_mesh
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.abstract_step import batch_shapes, trace_step
from jax_lm.training.memory.estimate import estimate

ROOT = Path(__file__).resolve().parents[1]
ROWS, LENGTH = 8, 1024
"""Of a step on each device."""
FAMILIES = ("gpt2", "gptj", "gpt_neox", "opt", "llama")
LIMIT = 2**30 * 80
"""No larger device is asked about."""
SAVING: dict[str, Any] = {"accumulation_steps": ROWS, "remat": "full"}
SETTINGS: dict[int, dict[str, dict[str, Any]]] = {
    1: {
        "nothing": {},
        "accumulation and remat": SAVING,
        "LoRA, accumulation and remat": SAVING | {"lora": LoraConfig(rank=16)},
    },
    8: {"fsdp 8": {}, "fsdp 8, accumulation and remat": SAVING},
}
"""By the number of devices."""


def main() -> None:
    """Estimate everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int)
    devices = parser.parse_args().devices
    if devices is not None:
        jax.config.update("jax_num_cpu_devices", devices)
        print(
            json.dumps(
                {name: of_setting(devices, SETTINGS[devices][name]) for name in SETTINGS[devices]}
            )
        )
        return
    bytes_of: dict[str, Any] = {}
    for count, settings in SETTINGS.items():
        found = in_fresh_process(__file__, "--devices", str(count))
        bytes_of |= {name: found[name] for name in settings}
    record(
        "what_fits",
        {
            "rows": ROWS,
            "length": LENGTH,
            "parameters": {name: count_parameters(model) for name, model in candidates().items()},
            "bytes": bytes_of,
            "compiled": {**compiled(1), **compiled(8)},
        },
    )


def candidates() -> dict[str, FamilyConfig]:
    """Decoder presets that read so much, smallest first; of equal shapes the first."""
    models = {
        name: model
        for name, model in PRESETS.items()
        if model.family in FAMILIES and model.vocab_size and model.context_length >= LENGTH
    }
    plain = {
        name: replace(model, dropout=0.0) if hasattr(model, "dropout") else model
        for name, model in models.items()
    }
    by_size: dict[int, str] = {}
    for name, model in plain.items():
        by_size.setdefault(count_parameters(model), name)
    return {name: plain[name] for _, name in sorted(by_size.items())}


def of_setting(devices: int, changes: dict[str, Any]) -> dict[str, int]:
    """Bytes on each device, of every preset up to the first few that no device holds."""
    sizes: dict[str, int] = {}
    for name, model in candidates().items():
        config = TrainConfig(
            model=replace(model, context_length=LENGTH),
            mesh=MeshConfig(data=1, fsdp=devices),
            batch_size=ROWS * devices,
            dtype="bfloat16",
            **changes,
        )
        batch = batch_shapes(config, ROWS * devices)
        step = trace_step(config, make_mesh(config.mesh), batch, on="accelerator")
        sizes[name] = estimate(step).total
        print(
            f"{devices} devices, {changes or 'nothing'}, {name}: {sizes[name] / 1e9:.1f} GB",
            file=sys.stderr,
        )
        if min(list(sizes.values())[-4:]) > LIMIT and len(sizes) > 4:
            break
    return sizes


def compiled(devices: int) -> dict[str, Any]:
    """Estimates and XLA's figures, of the tests' cases."""
    command = [sys.executable, "-m", "tests.training.memory.compiled_sizes", str(devices)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {
        name: {"estimated": sum(one["parts"].values()), "compiled": one["compiled"]}
        for name, one in found.items()
    }


if __name__ == "__main__":
    main()
