"""The trackers of a run, as its configuration asks for them."""

from jax_lm.sharding.processes import is_first
from jax_lm.trackers.base import Tracker
from jax_lm.trackers.combined import CombinedTracker, open_trackers
from jax_lm.trackers.environment import describe
from jax_lm.trackers.wandb import WandbSettings
from jax_lm.training.beginning.begin import Beginning
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.config import TrackingConfig, TrainConfig
from jax_lm.training.plan import Plan
from jax_lm.training.run_directory import RunDirectory


def run_trackers(run: RunDirectory, config: TrainConfig, plan: Plan, start: Beginning) -> Tracker:
    """Open them, to go on from where the run begins; only the first process has any.

    Raises:
        JaxLMError: a tracker's package is not installed.
    """
    if not is_first():
        return CombinedTracker([])
    return open_trackers(
        run.path,
        total_steps=plan.steps,
        resume_step=start.progress.step if start.resumed else None,
        tensorboard=config.tracking.tensorboard,
        wandb=_wandb(config.tracking, another=bool(start.changed)),
        config=recorded(config) | {"environment": describe()},
    )


def _wandb(tracking: TrackingConfig, *, another: bool) -> WandbSettings | None:
    if tracking.wandb_project is None:
        return None
    return WandbSettings(
        project=tracking.wandb_project,
        entity=tracking.wandb_entity,
        mode=tracking.wandb_mode,
        another_run=another,
    )
