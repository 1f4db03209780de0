"""What happens at an evaluation step of a run: held-out numbers, then a sample."""

from collections.abc import Sequence
from dataclasses import replace

from jax.sharding import Mesh

from jax_lm.evaluation.rows import RowScorer
from jax_lm.evaluation.scores import total
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.models.decoder import Decoder
from jax_lm.models.forward import Model
from jax_lm.objectives.registry import for_scoring, spells_text
from jax_lm.tokenizers.base import start_id
from jax_lm.trackers.base import Tracker
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData, open_objective
from jax_lm.training.signals import StopRequest


class Evaluator:
    """Logs held-out metrics and a sample of a step, once."""

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        mesh: Mesh,
        tracker: Tracker,
        stop: StopRequest,
        *,
        batch_size: int,
        logged_steps: Sequence[int] = (),
    ) -> None:
        """Args: the run's parts; steps that an earlier process has evaluated and logged."""
        self._config, self._data = config, data
        self._tracker, self._stop = tracker, stop
        self._logged = set(logged_steps)
        rows = config.evaluation.batch_size or batch_size
        scored = for_scoring(config.objective)
        self._scorer = RowScorer(
            objective=open_objective(replace(config, objective=scored), data.tokenizer),
            byte_lengths=data.tokenizer.token_byte_lengths() if spells_text(scored) else None,
            whole_rows=scored.name == "causal-lm",
            mesh=mesh,
            batch_size=-(-rows // mesh.size) * mesh.size,
            dtype=config.dtype,
        )

    def __call__(self, model: Model, step: int) -> None:
        """Evaluate; a step whose metrics are logged, or a run asked to stop, is left alone."""
        if step in self._logged:
            return
        metrics: dict[str, float] = {}
        for prefix, rows in self._data.validation.items():
            scores = self._scorer.score(
                model,
                rows,
                max_rows=self._config.evaluation.max_rows,
                should_stop=lambda: bool(self._stop),
            )
            metrics |= total(scores).metrics(prefix)
            if len(scores) > 1:
                for subset, subset_scores in scores.items():
                    metrics |= subset_scores.metrics(f"{prefix}/{subset or 'unnamed'}")
        if self._stop:
            return
        if metrics:
            self._tracker.log(step, metrics)
        self._logged.add(step)
        self._sample(model, step)

    def _sample(self, model: Model, step: int) -> None:
        settings = self._config.evaluation
        tokenizer = self._data.tokenizer
        if step == 0 or settings.sample_tokens == 0 or not isinstance(model, Decoder):
            return
        if not settings.sample_prompt and start_id(tokenizer) is None:
            return  # nothing to start from
        sampling = SamplingConfig(max_new_tokens=settings.sample_tokens, seed=self._config.seed)
        sample = continue_texts(model, tokenizer, [settings.sample_prompt], sampling)[0]
        self._tracker.sample(step, sample.prompt, sample.text)
