"""What happens at an evaluation step of a run: held-out numbers, then samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jax.sharding import Mesh

from jax_lm.evaluation.scoring.rows import RowScorer
from jax_lm.evaluation.scoring.scores import total
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.models.decoder import Decoder
from jax_lm.models.forward import Model
from jax_lm.objectives.registry import for_scoring, spells_text
from jax_lm.sharding.mesh import row_shards
from jax_lm.tokenizers.base import start_id
from jax_lm.trackers.base import Tracker
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData, open_objective
from jax_lm.training.hosts.agreement import Agreement


class Evaluator:
    """Logs held-out metrics and samples of a step, once."""

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        mesh: Mesh,
        tracker: Tracker,
        agreement: Agreement,
        *,
        batch_size: int,
        logged_steps: Sequence[int] = (),
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the run's parts.

        Args:
            config: of the run.
            data: its held-out sets and tokenizer.
            mesh: where the model lies.
            tracker: gets numbers and samples.
            agreement: whether to leave off.
            batch_size: rows scored at once, unless the configuration says.
            logged_steps: what an earlier process has evaluated and logged.
            alive: called at every batch.
        """
        self._config, self._data = config, data
        self._tracker, self._agreement = tracker, agreement
        self._logged, self._alive = set(logged_steps), alive
        rows = config.evaluation.batch_size or batch_size
        scored = for_scoring(config.objective)
        self._scorer = RowScorer(
            objective=open_objective(replace(config, objective=scored), data.tokenizer),
            byte_lengths=data.tokenizer.token_byte_lengths() if spells_text(scored) else None,
            whole_rows=scored.name == "causal-lm",
            mesh=mesh,
            batch_size=-(-rows // row_shards(mesh)) * row_shards(mesh),
            dtype=config.dtype,
        )

    def __call__(self, model: Model, step: int) -> Mapping[str, float]:
        """Evaluate; a step whose metrics are logged, or a run asked to stop, is left alone.

        Returns:
            The held-out metrics; none of a step left alone.
        """
        if step in self._logged:
            return {}
        metrics: dict[str, float] = {}
        for prefix, rows in self._data.validation.items():
            scores = self._scorer.score(
                model,
                rows,
                max_rows=self._config.evaluation.max_rows,
                should_stop=self._should_stop,
            )
            metrics |= total(scores).metrics(prefix)
            if len(scores) > 1:
                for subset, subset_scores in scores.items():
                    metrics |= subset_scores.metrics(f"{prefix}/{subset or 'unnamed'}")
        if self._agreement.stopped:
            return {}
        if metrics:
            self._tracker.log(step, metrics)
        self._logged.add(step)
        self._sample(model, step)
        return metrics

    def _should_stop(self) -> bool:
        self._alive()
        return self._agreement() == "signal"

    def _sample(self, model: Model, step: int) -> None:
        settings, tokenizer = self._config.evaluation, self._data.tokenizer
        if step == 0 or settings.sample_tokens == 0 or not isinstance(model, Decoder):
            return
        prompts = [
            prompt for prompt in settings.prompts if prompt or start_id(tokenizer) is not None
        ]
        if not prompts:
            return  # nothing to start from
        sampling = SamplingConfig(max_new_tokens=settings.sample_tokens, seed=self._config.seed)
        for sample in continue_texts(model, tokenizer, prompts, sampling):
            self._tracker.sample(step, sample.prompt, sample.text)
