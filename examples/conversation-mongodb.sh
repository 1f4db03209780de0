#!/usr/bin/env bash
# A small GPT-2 that answers: texts and conversations kept in MongoDB, pretraining on the texts,
# fine-tuning on the answers, held-out numbers, a question answered.
#
#   TEXTS=corpus.jsonl TALKS=talks.csv examples/conversation-mongodb.sh
#   TEXTS=corpus.jsonl TALKS=talks.csv MONGODB=mongodb://HOST/DB VOCABULARY=2000 LENGTH=32 \
#   FLAGS="--model.num-layers 2 --model.num-heads 4 --model.embed-dim 128 --steps 500 \
#   --optimizer.learning-rate 1e-3 --optimizer.warmup-steps 50" \
#   examples/conversation-mongodb.sh          # minutes on a laptop
#
# Needs pip install 'jax-lm[mongodb]' and a server. An interrupted script goes on where it was when
# it is started again; TALKS and TEXTS are uploaded once.
set -euo pipefail

TEXTS=${TEXTS:-corpus.jsonl}        # to learn the language from
TALKS=${TALKS:-talks.csv}           # records with q and a
MONGODB=${MONGODB:-mongodb://localhost:27017/dsgpt2}
OUT=${OUT:-conversation}            # where everything is written
VOCABULARY=${VOCABULARY:-50257}     # tokens, seven special and a hundred spare ones among them
SPARE=${SPARE:-100}
LENGTH=${LENGTH:-128}               # tokens of a row
HELD_OUT=${HELD_OUT:-1}             # percent of texts and conversations
RECIPE=${RECIPE:-dsgpt2-112m}       # or dsgpt2-112m-half, dsgpt2-345m, with LENGTH=64
FLAGS=${FLAGS:-}                    # of both `jax-lm train`, to change the recipes
QUESTION=${QUESTION:-안녕하세요}

# Both collections count under an index of their own; cleaning leaves the original beside the text.
texts="$MONGODB?collections=texts" talks="$MONGODB?collections=talks"
mkdir -p "$OUT"
upload() { # SPEC COLLECTION
  [ -e "$OUT/uploaded-$2" ] && return
  jax-lm documents build "$1" --cleaning dsgpt2 --output "$MONGODB?collections=$2"
  touch "$OUT/uploaded-$2"
}
upload "$TEXTS" texts
upload "$TALKS" talks
jax-lm documents info "$MONGODB?collections=texts,talks"
jax-lm documents show "$talks" -i 0

[ -d "$OUT/tokenizer" ] ||
  jax-lm tokenizer train "$texts" "$talks" --preset dsgpt2 --unused-tokens "$SPARE" \
    --vocab-size "$VOCABULARY" --output "$OUT/tokenizer"

# One document a row, between <s> and </s>; then one question and answer a row.
rows() { # SPEC NAME [MORE FLAGS]
  for part in train held-out; do
    jax-lm preprocess "$1" --split $part --held-out-percent "$HELD_OUT" "${@:3}" \
      --tokenizer "$OUT/tokenizer" --max-sequence-length "$LENGTH" --output "$OUT/$2/$part"
  done
}
rows "$texts" texts --mode documents
rows "$talks" talks --mode pairs --chat-template bare

learn() { # RECIPE NAME [MORE FLAGS]
  # shellcheck disable=SC2086 # several words
  jax-lm train "$1" --data.train "$OUT/$2/train" --data.validation "$OUT/$2/held-out" \
    --data.sequence-length "$LENGTH" --run-dir "$OUT/run-$2" --resume auto "${@:3}" $FLAGS
}
learn "$RECIPE" texts --model.context-length "$LENGTH"
learn dsgpt2-conversation talks --init-from "$OUT/run-texts"

jax-lm evaluate "$OUT/run-talks" "$OUT/talks/held-out"
jax-lm generate "$OUT/run-talks" --parse-special-tokens --max-new-tokens 40 \
  --prompt "<usr><s>$QUESTION</s><sys><s>"
