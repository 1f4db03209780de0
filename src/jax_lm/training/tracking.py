"""The trackers of a run, as its configuration asks for them."""

from jax_lm.checkpoints.layout import Progress
from jax_lm.sharding.processes import is_first
from jax_lm.trackers.base import Tracker
from jax_lm.trackers.combined import CombinedTracker, open_trackers
from jax_lm.trackers.environment import describe
from jax_lm.trackers.wandb import WandbSettings
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.config import TrackingConfig, TrainConfig
from jax_lm.training.plan import Plan
from jax_lm.training.run_directory import RunDirectory


def run_trackers(
    run: RunDirectory, config: TrainConfig, plan: Plan, resumed: Progress | None
) -> Tracker:
    """Open them, to go on from ``resumed``; of several processes only the first one has any.

    Raises:
        JaxLMError: a tracker's package is not installed.
    """
    if not is_first():
        return CombinedTracker([])
    return open_trackers(
        run.path,
        total_steps=plan.steps,
        resume_step=None if resumed is None else resumed.step,
        tensorboard=config.tracking.tensorboard,
        wandb=_wandb(config.tracking),
        config=recorded(config) | {"environment": describe()},
    )


def _wandb(tracking: TrackingConfig) -> WandbSettings | None:
    if tracking.wandb_project is None:
        return None
    return WandbSettings(
        project=tracking.wandb_project, entity=tracking.wandb_entity, mode=tracking.wandb_mode
    )
