"""The model card: what a person needs to know before using the weights."""

from collections.abc import Mapping
from typing import Any

import jax

from jax_lm.models.gpt2 import GPT2, GPT2Config

FRONT_MATTER = """\
---
library_name: transformers
pipeline_tag: text-generation
tags:
  - jax
  - jax-lm
  - gpt2
  - text-generation
# license: name the licence you give the weights, such as apache-2.0
---"""

DEFINITIONS = """\
- **loss**: nats a token, sum(weight * -log p) / sum(weight) over the whole held-out set.
- **perplexity**: exp(loss). It depends on the tokenizer, so compare it only within one.
- **bits per byte**: sum of -log p over the scored tokens / (ln 2 * UTF-8 bytes of the text they
  spell). It does not depend on the tokenizer."""


def model_card(
    name: str,
    model: GPT2,
    *,
    training: Mapping[str, Any],
    evaluation: Mapping[str, float],
    example_prompt: str = "Once upon a time",
) -> str:
    """A Markdown model card with YAML front matter; the licence is left to the user.

    Args:
        name: of the model: the title, and the directory in the example.
        model: for its shape and its number of parameters.
        training: facts about the run, shown as they are, such as ``{"tokens": "98,304,000"}``.
        evaluation: held-out numbers by metric name, such as ``{"val/bits_per_byte": 1.02}``.
        example_prompt: what the example continues.
    """
    sections = [
        FRONT_MATTER,
        f"# {name}",
        f"A GPT-2 language model of {_num_parameters(model):,} parameters, "
        "trained with jax-lm in JAX.",
        f"## How to use it\n\n{_usage(name, example_prompt)}",
        f"## Architecture\n\n{_table('', 'value', _architecture(model))}",
    ]
    if training:
        sections.append(f"## Training\n\n{_table('', 'value', training)}")
    if evaluation:
        numbers = {metric: f"{value:.4f}" for metric, value in evaluation.items()}
        sections.append(f"## Evaluation\n\n{_table('metric', 'value', numbers)}\n\n{DEFINITIONS}")
    sections.append(f"## Limits\n\n{_limits(model.config)}")
    return "\n\n".join(sections) + "\n"


def _usage(name: str, prompt: str) -> str:
    return f"""\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

path = {name!r}  # this directory
tokenizer = AutoTokenizer.from_pretrained(path)
model = AutoModelForCausalLM.from_pretrained(path)
inputs = tokenizer({prompt!r}, return_tensors="pt")
outputs = model.generate(**inputs, max_new_tokens=64, do_sample=True, temperature=0.8)
print(tokenizer.decode(outputs[0]))
```

or, with jax-lm:

```
jax-lm generate {name} --prompt {_shell(prompt)}
```"""


def _architecture(model: GPT2) -> dict[str, Any]:
    config = model.config
    activation = {"gelu_tanh": "GELU (tanh approximation)", "gelu": "GELU (exact)"}
    return {
        "family": "GPT-2: learned positions, pre-norm blocks, output matrix tied to the embedding",
        "parameters": f"{_num_parameters(model):,}",
        "layers": config.num_layers,
        "heads": config.num_heads,
        "width": config.embed_dim,
        "feed-forward width": config.mlp_dim or 4 * config.embed_dim,
        "activation": activation[config.activation],
        "biases": "yes" if config.bias else "none (stored as zeros, which transformers expects)",
        "vocabulary": f"{model.token_embedding.shape[0]:,}",
        "context length": f"{config.context_length:,} tokens",
        "stored as": "float32",
    }


def _limits(config: GPT2Config) -> str:
    return (
        f"The model sees at most {config.context_length:,} tokens at once. It continues text in "
        "the manner of what it was trained on, errors and prejudices included; what it says is "
        "not checked for truth."
    )


def _table(key: str, value: str, rows: Mapping[str, Any]) -> str:
    lines = [f"| {key} | {value} |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(fact)} |" for name, fact in rows.items()]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _num_parameters(model: GPT2) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model))
