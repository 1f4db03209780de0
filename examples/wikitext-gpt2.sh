#!/usr/bin/env bash
# WikiText from raw text to generated text: a tokenizer, windows of tokens, a GPT-2, its perplexity.
#
#   examples/wikitext-gpt2.sh                 # WikiText-103 from the hub: some hours on a GPU
#   TRAIN=mine.txt HELD_OUT=other.txt VOCABULARY=2000 LENGTH=64 \
#   FLAGS="--model.num-layers 2 --model.num-heads 4 --model.embed-dim 128 --steps 500 \
#   --optimizer.learning-rate 1e-3 --optimizer.warmup-steps 50" \
#   examples/wikitext-gpt2.sh                 # a text of your own: minutes on a laptop
#
# An interrupted script goes on where it was when it is started again.
set -euo pipefail

TRAIN=${TRAIN:-hf-dataset:Salesforce/wikitext:wikitext-103-v1?split=train}
HELD_OUT=${HELD_OUT:-hf-dataset:Salesforce/wikitext:wikitext-103-v1?split=test}
OUT=${OUT:-wikitext}                # where everything is written
VOCABULARY=${VOCABULARY:-50257}     # tokens
LENGTH=${LENGTH:-256}               # tokens of a row
STRIDE=${STRIDE:-128}               # tokens from the start of a window to that of the next
FLAGS=${FLAGS:-}                    # of `jax-lm train`, to change the recipe
PROMPT=${PROMPT:-The history of}

# Byte-level BPE, as GPT-2 has it; a name on the hub, such as gpt2, would do as well.
[ -d "$OUT/tokenizer" ] ||
  jax-lm tokenizer train "$TRAIN" --vocab-size "$VOCABULARY" --output "$OUT/tokenizer"

# Windows that overlap, as `python -m jax_lm.preprocess` cuts them; no text is left out.
windows=(--mode windows --stride "$STRIDE" --max-sequence-length "$LENGTH" --tokenizer "$OUT/tokenizer")
jax-lm preprocess "$TRAIN" "${windows[@]}" --output "$OUT/features/train"
jax-lm preprocess "$HELD_OUT" "${windows[@]}" --output "$OUT/features/held-out"
jax-lm features show "$OUT/features/train" -i 0

# shellcheck disable=SC2086 # several words
jax-lm train wikitext103-gpt2 --data.train "$OUT/features/train" \
  --data.validation "$OUT/features/held-out" --data.sequence-length "$LENGTH" \
  --run-dir "$OUT/run" --resume auto $FLAGS

# The same documents whole, each token once.
jax-lm evaluate "$OUT/run" "$HELD_OUT" --method disjoint --window "$LENGTH"
jax-lm generate "$OUT/run" --prompt "$PROMPT" --max-new-tokens 40
