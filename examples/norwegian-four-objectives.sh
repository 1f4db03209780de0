#!/usr/bin/env bash
# Four families on one text: GPT-2, RoBERTa, T5 and BART, each with the objective it was published
# with, from raw text to held-out numbers; GPT-2 writes some more.
#
#   TRAIN=no.jsonl.zst HELD_OUT=no-held-out.jsonl examples/norwegian-four-objectives.sh
#   TRAIN=mine.txt HELD_OUT=other.txt VOCABULARY=2000 LENGTH=64 \
#   FLAGS="--model.num-layers 2 --model.num-heads 4 --model.embed-dim 128 --steps 500 \
#   --optimizer.learning-rate 1e-3 --optimizer.warmup-steps 50" \
#   examples/norwegian-four-objectives.sh     # a text of your own: minutes on a laptop
#
# An interrupted script goes on where it was when it is started again.
set -euo pipefail

TRAIN=${TRAIN:-no.jsonl.zst}        # OSCAR's unshuffled_deduplicated_no, say
HELD_OUT=${HELD_OUT:-no-held-out.jsonl}
OUT=${OUT:-norwegian}               # where everything is written
VOCABULARY=${VOCABULARY:-50265}     # tokens of GPT-2, RoBERTa and BART
PIECES=${PIECES:-32000}             # tokens of T5, beside its 100 sentinels
LENGTH=${LENGTH:-}                  # tokens of a row; empty: as each was published
FAMILIES=${FAMILIES:-gpt2 roberta t5 bart}
FLAGS=${FLAGS:-}                    # of every `jax-lm train`, to change the recipes
PROMPT=${PROMPT:-Det var en gang}

bpe=$OUT/byte-level-bpe unigram=$OUT/unigram
[ -d "$bpe" ] || jax-lm tokenizer train "$TRAIN" --vocab-size "$VOCABULARY" \
  --special-tokens '<s>' '<pad>' '</s>' '<unk>' '<mask>' --output "$bpe"
[ -d "$unigram" ] || jax-lm tokenizer train "$TRAIN" --kind sentencepiece-unigram --preset t5 \
  --vocab-size "$PIECES" --output "$unigram"

# journey FAMILY TOKENIZER LENGTH [FLAGS OF PREPROCESS]
journey() {
  local out=$OUT/$1 recipe=$1-norwegian length=${LENGTH:-$3} tokenizer=$2
  [[ " $FAMILIES " == *" $1 "* ]] || return 0
  shift 3
  rows=(--tokenizer "$tokenizer" --max-sequence-length "$length" "$@")
  jax-lm preprocess "$TRAIN" "${rows[@]}" --output "$out/train"
  jax-lm preprocess "$HELD_OUT" "${rows[@]}" --output "$out/held-out"
  # shellcheck disable=SC2086 # several words
  jax-lm train "$recipe" --data.train "$out/train" --data.validation "$out/held-out" \
    --data.sequence-length "$length" --run-dir "$out/run" --resume auto $FLAGS
  jax-lm evaluate "$out/run" "$out/held-out"
}

journey gpt2 "$bpe" 512
journey roberta "$bpe" 128 --objective masked-lm
journey t5 "$unigram" 512 --objective span-corruption
journey bart "$bpe" 1024 --objective denoising --sentences

[[ " $FAMILIES " != *" gpt2 "* ]] ||
  jax-lm generate "$OUT/gpt2/run" --prompt "$PROMPT" --max-new-tokens 40
