#!/usr/bin/env bash
# A published model fine-tuned over a mesh of devices on pairs of input and output.
#
#   PAIRS=pairs.jsonl examples/mesh-finetune-pairs.sh             # GPT-J 6B over 8 devices
#   PAIRS=pairs.jsonl RECIPE=llama-7b-finetune MODEL=huggyllama/llama-7b MESH="" \
#   examples/mesh-finetune-pairs.sh                               # LLaMA 7B by LoRA on one GPU
#   PAIRS=pairs.jsonl MODEL=distilgpt2 FAKE_DEVICES=4 MESH="--mesh.fsdp 2 --mesh.tensor 2" \
#   FLAGS="--dtype float32 --steps 50" examples/mesh-finetune-pairs.sh   # a mesh on a laptop
#
# An interrupted script goes on where it was when it is started again.
set -euo pipefail

PAIRS=${PAIRS:-pairs.jsonl}         # {"in_text": ..., "out_text": ...} a line
MODEL=${MODEL:-EleutherAI/gpt-j-6b} # a run, a Hugging Face directory, or a name on the hub
RECIPE=${RECIPE:-gptj-6b-finetune}
OUT=${OUT:-finetuned}               # where everything is written
INPUT=${INPUT:-512}                 # longest input, in tokens; the end is kept
OUTPUT=${OUTPUT:-512}               # longest output, in tokens; the start is kept
HELD_OUT=${HELD_OUT:-5}             # percent of the pairs
MESH=${MESH---mesh.fsdp 8}          # flags of `jax-lm train`: how devices share the work
FAKE_DEVICES=${FAKE_DEVICES:-}      # so many devices pretended on the CPU, to try a mesh
FLAGS=${FLAGS:-}                    # of `jax-lm train`, to change the recipe
PROMPT=${PROMPT:-How do I get from text to a model?}

[ -z "$FAKE_DEVICES" ] || export JAX_PLATFORMS=cpu \
  XLA_FLAGS="${XLA_FLAGS:-} --xla_force_host_platform_device_count=$FAKE_DEVICES"

# Split by a hash of the text: copies of a pair are on one side.
pairs=(--mode pairs --max-sequence-length $((INPUT + OUTPUT)) --max-input-length "$INPUT"
  --max-output-length "$OUTPUT" --held-out-percent "$HELD_OUT" --tokenizer "$MODEL")
jax-lm preprocess "$PAIRS" --split train "${pairs[@]}" --output "$OUT/features/train"
jax-lm preprocess "$PAIRS" --split held-out "${pairs[@]}" --output "$OUT/features/held-out"
jax-lm features show "$OUT/features/train" -i 0

# shellcheck disable=SC2086 # several words
jax-lm train "$RECIPE" --init-from "$MODEL" --data.train "$OUT/features/train" \
  --data.validation "$OUT/features/held-out" --data.sequence-length $((INPUT + OUTPUT)) \
  --data.target-length "$OUTPUT" --run-dir "$OUT/run" --resume auto $MESH $FLAGS

# Loss and bits per byte of the outputs; before training, they are what the log says of step 0.
jax-lm evaluate "$OUT/run" "$OUT/features/held-out"
jax-lm generate "$OUT/run" --prompt "$PROMPT" --max-new-tokens 40
