"""Texts and scores of a server on some devices, as JSON: run in a process of its own."""

import json
import sys

import jax

from jax_lm.serving.options import ServeOptions
from jax_lm.serving.start import load_served
from jax_lm.sharding.mesh import MeshConfig
from tests.serving.conftest import serving


def main() -> None:
    directory, mesh = sys.argv[1], MeshConfig(**json.loads(sys.argv[2]))
    served = load_served(directory, ServeOptions(port=0, max_concurrent=4), mesh=mesh)
    body = {"prompt": ["one", "two three", "f"], "max_tokens": 8, "seed": 1}
    pairs = {"in_strs": ["one", "two"], "out_strs": [" two", " three"]}
    with serving(served, None) as running:
        answer = running.client.post("/v1/completions", json=body, timeout=200).json()
        scores = running.client.post("/log_probs", json=pairs, timeout=200).json()["data"]
    texts = [one["text"] for one in answer["choices"]]
    print(json.dumps({"texts": texts, "scores": scores, "devices": jax.device_count()}))


if __name__ == "__main__":
    main()
