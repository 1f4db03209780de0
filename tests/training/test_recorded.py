from dataclasses import replace

import pytest

from jax_lm.dataclass_json import from_json
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.config import DataConfig, EvaluationConfig, TrainConfig


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("features/train", "features/train"),
        ("corpus/what?.txt", "corpus/what?.txt"),
        ("gs://bucket/rows*=0.7", "gs://bucket/rows*=0.7"),
        ("https://user:hunter2@host/a.jsonl?sig=hunter2", "https://host/a.jsonl"),
        (
            "mongodb://me:hunter2@host/texts?collections=a,b&authSource=admin&text=body",
            "mongodb://host/texts?collections=a,b&authSource=***&text=body",
        ),
        ("s3://key:hunter2@bucket/a.txt", "s3://bucket/a.txt"),
    ],
)
def test_secrets_of_a_spec_are_not_kept(spec: str, kept: str) -> None:
    config = TrainConfig(data=DataConfig(train=(spec,), validation=(f"own={spec}",)))
    values = recorded(config)
    assert values["data"]["train"] == [kept]
    assert values["data"]["validation"] == [f"own={kept}"]
    assert "hunter2" not in str(values)


@pytest.mark.parametrize("prompt", ["def ", ("def ", "import ")])
def test_what_is_kept_is_the_configuration(prompt: str | tuple[str, ...]) -> None:
    config = TrainConfig(evaluation=EvaluationConfig(sample_prompt=prompt), steps=3)
    again = from_json(TrainConfig, recorded(config), "config.json")
    assert replace(again, data=config.data) == config
    assert again.evaluation.prompts == ((prompt,) if isinstance(prompt, str) else prompt)
