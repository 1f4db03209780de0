"""The model card: what a person needs to know before using the weights."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jax_lm.huggingface.families import family_for
from jax_lm.models.forward import Model
from jax_lm.models.registry import count_parameters
from jax_lm.types import ModelKind

DEFINITIONS = """\
- **loss**: nats a token, sum(weight * -log p) / sum(weight) over the whole held-out set.
- **perplexity**: exp(loss). It depends on the tokenizer, so compare it only within one.
- **bits per byte**: sum of -log p over the scored tokens / (ln 2 * UTF-8 bytes of the text they
  spell). It does not depend on the tokenizer."""


class _Use(NamedTuple):
    """How a kind of model is used in transformers."""

    pipeline: str
    auto_class: str
    lines: str


USES: Mapping[ModelKind, _Use] = {
    "decoder": _Use(
        "text-generation",
        "AutoModelForCausalLM",
        """\
inputs = tokenizer({prompt!r}, return_tensors="pt")
outputs = model.generate(**inputs, max_new_tokens={tokens}, do_sample=True, temperature=0.8)
print(tokenizer.decode(outputs[0]))""",
    ),
    "encoder": _Use(
        "fill-mask",
        "AutoModelForMaskedLM",
        """\
inputs = tokenizer({prompt!r} + " " + tokenizer.mask_token, return_tensors="pt")
masked = inputs["input_ids"][0] == tokenizer.mask_token_id
print(tokenizer.decode(model(**inputs).logits[0, masked].argmax(-1)))""",
    ),
    "encoder-decoder": _Use(
        "text2text-generation",
        "AutoModelForSeq2SeqLM",
        """\
inputs = tokenizer({prompt!r}, return_tensors="pt")
outputs = model.generate(**inputs, max_new_tokens={tokens})
print(tokenizer.decode(outputs[0], skip_special_tokens=True))""",
    ),
}


def model_card(
    name: str,
    model: Model,
    *,
    training: Mapping[str, Any],
    evaluation: Mapping[str, float],
    example_prompt: str = "Once upon a time",
    dtype: str = "float32",
) -> str:
    """A Markdown model card with YAML front matter; the licence is left to the user.

    Args:
        name: of the model: the title, and the directory in the example.
        model: for its shape and its number of parameters.
        training: facts about the run, shown as they are, such as ``{"tokens": "98,304,000"}``;
            empty: nothing is said of where the weights come from.
        evaluation: held-out numbers by metric name, such as ``{"val/bits_per_byte": 1.02}``.
        example_prompt: what the example continues.
        dtype: of the stored weights.
    """
    config = model.config
    made = "trained" if training else "written"
    sections = [
        _front_matter(config),
        f"# {name}",
        f"A language model of {count_parameters(config):,} parameters "
        f"(`{family_for(config).architecture}` in transformers), {made} with jax-lm in JAX.",
        f"## How to use it\n\n{_usage(name, config, example_prompt)}",
        f"## Architecture\n\n{_table('', 'value', _architecture(config, dtype))}",
    ]
    if training:
        sections.append(f"## Training\n\n{_table('', 'value', training)}")
    if evaluation:
        numbers = {metric: f"{value:.4f}" for metric, value in evaluation.items()}
        sections.append(f"## Evaluation\n\n{_table('metric', 'value', numbers)}\n\n{DEFINITIONS}")
    sections.append(f"## Limits\n\n{_limits(config)}")
    return "\n\n".join(sections) + "\n"


def _front_matter(config: Any) -> str:
    return f"""\
---
library_name: transformers
pipeline_tag: {USES[config.kind].pipeline}
tags:
  - jax
  - jax-lm
  - {config.family}
# license: name the licence you give the weights, such as apache-2.0
---"""


def _usage(name: str, config: Any, prompt: str) -> str:
    use, tokens = USES[config.kind], min(64, config.context_length // 2)
    lines = [
        "```python",
        f"from transformers import {use.auto_class}, AutoTokenizer",
        "",
        f"path = {name!r}  # this directory",
        "tokenizer = AutoTokenizer.from_pretrained(path)",
        f"model = {use.auto_class}.from_pretrained(path)",
        use.lines.format(prompt=prompt, tokens=tokens),
        "```",
    ]
    if config.kind == "decoder":
        shell = f"jax-lm generate {name} --prompt {_shell(prompt)}"
        lines += ["", "or, with jax-lm:", "", "```", shell, "```"]
    return "\n".join(lines)


def _architecture(config: Any, dtype: str) -> dict[str, Any]:
    fields = {
        field.name.replace("_", " "): _shown(getattr(config, field.name))
        for field in dataclasses.fields(config)
        if getattr(config, field.name) is not None
    }
    return {"parameters": f"{count_parameters(config):,}", **fields, "stored as": dtype}


def _shown(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _limits(config: Any) -> str:
    does = {
        "decoder": "It continues text in the manner of",
        "encoder": "It fills gaps in text in the manner of",
        "encoder-decoder": "It answers text with text in the manner of",
    }[config.kind]
    return (
        f"The model was built for at most {config.context_length:,} tokens at once. {does} what it "
        "was trained on, errors and prejudices included; what it says is not checked for truth."
    )


def _table(key: str, value: str, rows: Mapping[str, Any]) -> str:
    lines = [f"| {key} | {value} |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(fact)} |" for name, fact in rows.items()]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
