"""What is compared with transformers: a tiny random model for every quirk of every family."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SEQ = 9
VOCABULARY = 300
SHAPE = {"vocab_size": VOCABULARY}


class Case(NamedTuple):
    """A random model of transformers."""

    config: Callable[[], Any]
    """Its configuration, with ``VOCABULARY`` ids and sequences of at least ``SEQ`` allowed."""
    auto: str = "AutoModelForCausalLM"
    prepare: Callable[[Any], None] = lambda model: None
    """Called with the model before its weights are drawn."""
    pad: int = 1
    """What padding holds; never seen by a real token."""


class Inputs(NamedTuple):
    """Rows of several lengths, padded on either side, and what each position is to predict."""

    input_ids: np.ndarray
    real: np.ndarray
    decoder_input_ids: np.ndarray | None
    targets: np.ndarray
    scored: np.ndarray


def make_inputs(case: Case, *, encoder_decoder: bool) -> Inputs:
    """A full row, one padded on the right, one padded on the left, and a row of one token."""
    draw = np.random.default_rng(0)
    places = np.arange(SEQ)[None, :]
    stops, starts = np.array([[SEQ], [SEQ - 4], [SEQ], [1]]), np.array([[0], [0], [3], [0]])
    real = (places >= starts) & (places < stops)
    ids = np.where(real, draw.integers(3, VOCABULARY, real.shape), case.pad)
    targets = draw.integers(0, VOCABULARY, real.shape)
    if not encoder_decoder:
        return Inputs(ids, real, None, targets, real)
    scored = places[:, :6] < np.array([[6], [3], [6], [1]])
    decoder_ids = draw.integers(3, VOCABULARY, scored.shape)
    return Inputs(ids, real, decoder_ids, targets[:, :6], scored)


def random_model(case: Case) -> Any:
    """The model with every weight drawn anew, so that biases and scales matter too."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = case.config()
    config._attn_implementation = "eager"
    model = getattr(transformers, case.auto).from_config(config)
    case.prepare(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            is_scale = parameter.ndim == 1 and "bias" not in name
            parameter.copy_(1 + 0.1 * noise if is_scale else 0.15 * noise)
    return model.eval()


def their_logits(model: Any, inputs: Inputs) -> Any:
    """Logits of transformers as a torch tensor."""
    import torch

    if model.config.model_type == "bart":  # it counts positions over padding too
        inputs = without_left_padding(inputs)
    given: dict[str, Any] = {
        "input_ids": torch.tensor(inputs.input_ids),
        "attention_mask": torch.tensor(inputs.real.astype(np.int64)),
    }
    if inputs.decoder_input_ids is not None:
        given["decoder_input_ids"] = torch.tensor(inputs.decoder_input_ids)
    elif _takes(model, "position_ids") and model.config.model_type not in ("roberta", "opt"):
        # Those two find the positions themselves.
        given["position_ids"] = torch.tensor((np.cumsum(inputs.real, axis=1) - 1).clip(0))
    if _takes(model, "use_cache"):
        given["use_cache"] = False
    return model(**given).logits


def without_left_padding(inputs: Inputs) -> Inputs:
    """The same rows with all their padding on the right."""
    order = np.argsort(~inputs.real, axis=1, kind="stable")
    ids, real = (np.take_along_axis(part, order, axis=1) for part in inputs[:2])
    return inputs._replace(input_ids=ids, real=real)


def truncated(model: Any, depth: int) -> Any:
    """The model with the first ``depth`` blocks of each stack."""
    import copy

    import torch

    model = copy.deepcopy(model)

    def cut(module: Any) -> None:
        for name, child in module.named_children():
            if isinstance(child, torch.nn.ModuleList):
                setattr(module, name, child[:depth])
            else:
                cut(child)

    cut(model)
    return model


def _takes(model: Any, argument: str) -> bool:
    return argument in inspect.signature(model.forward).parameters
