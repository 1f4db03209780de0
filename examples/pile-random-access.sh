#!/usr/bin/env bash
# From the Pile's files to bits per byte: a store with random access, rolling windows with context,
# a decoder, its bits per byte of every subset.
#
#   DATA='pile/train/*.jsonl.zst' HELD_OUT='pile/val.jsonl.zst' examples/pile-random-access.sh
#   DATA=web.jsonl HELD_OUT=other.jsonl VOCABULARY=2000 LENGTH=64 CONTEXT=32 \
#   FLAGS="--model.num-layers 2 --model.num-heads 4 --model.embed-dim 128 --steps 500 \
#   --optimizer.learning-rate 1e-3 --optimizer.warmup-steps 50" \
#   examples/pile-random-access.sh            # any JSON lines with a text: minutes on a laptop
#
# An interrupted script goes on where it was when it is started again.
set -euo pipefail

DATA=${DATA:-pile/train/*.jsonl.zst}   # {"text": ..., "meta": {"pile_set_name": ...}} a line
HELD_OUT=${HELD_OUT:-pile/val.jsonl.zst}
OUT=${OUT:-pile-run}                # where everything is written
DOCUMENT=${DOCUMENT:-7}             # which document to look at
VOCABULARY=${VOCABULARY:-50000}     # tokens
SENTENCES=${SENTENCES:-10000000}    # lines that the tokenizer learns from
LENGTH=${LENGTH:-1024}              # tokens of a row
CONTEXT=${CONTEXT:-512}             # of which so many, at least, are context
RECIPE=${RECIPE:-pile-178m}         # or pile-1b4, pile-2b6
FLAGS=${FLAGS:-}                    # of `jax-lm train`, to change the recipe
PROMPT=${PROMPT:-The}

# Every document by its number at once, over however many files.
corpus="sqlite:$OUT/corpus.db"
[ -e "$OUT/corpus.db" ] || jax-lm documents build "$DATA" --output "$OUT/corpus.db"
jax-lm documents info "$corpus"
jax-lm documents show "$corpus" -i "$DOCUMENT" --show-characters 300

# Ids 0, 1 and 2 are [PAD], [UNK] and [eod], which parts documents.
[ -d "$OUT/tokenizer" ] ||
  jax-lm tokenizer train "$corpus" --kind sentencepiece-bpe --vocab-size "$VOCABULARY" \
    --input-sentence-size "$SENTENCES" --pad-id 0 --unk-id 1 --bos-id -1 --eos-id 2 \
    --pad-piece '[PAD]' --unk-piece '[UNK]' --eos-piece '[eod]' --output "$OUT/tokenizer"

# Each token is scored once; a document's later windows begin with text that was scored before.
rolling=(--mode rolling --max-sequence-length "$LENGTH" --context-length "$CONTEXT")
jax-lm preprocess "$corpus" "${rolling[@]}" --tokenizer "$OUT/tokenizer" --output "$OUT/features/train"
jax-lm preprocess "$HELD_OUT" "${rolling[@]}" --tokenizer "$OUT/tokenizer" \
  --output "$OUT/features/held-out"

# shellcheck disable=SC2086 # several words
jax-lm train "$RECIPE" --data.train "$OUT/features/train" \
  --data.validation "$OUT/features/held-out" --model.context-length "$LENGTH" \
  --run-dir "$OUT/run" --resume auto $FLAGS

jax-lm evaluate "$OUT/run" "$HELD_OUT" --method rolling --context-length "$CONTEXT"
jax-lm generate "$OUT/run" --prompt "$PROMPT" --max-new-tokens 40 --top-k 50
