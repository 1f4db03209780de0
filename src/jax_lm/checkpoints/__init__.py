"""Step checkpoints: arrays (Orbax) and JSON in one directory that is complete once renamed.

``step-00001000/`` holds ``model/``, ``optimizer/`` and where there is one ``average/`` (arrays by
path), ``progress.json``, ``config.json``, where it was evaluated ``evaluation.json``, and
``checksums.json`` (sha256 of every other file, checked on restore).
"""

from jax_lm.checkpoints.layout import (
    Progress,
    list_steps,
    read_config,
    read_progress,
    step_directory,
)
from jax_lm.checkpoints.restoring import restore_arrays, stored_arrays
from jax_lm.checkpoints.retention import read_best
from jax_lm.checkpoints.saving import save_checkpoint, save_model
from jax_lm.checkpoints.verifying import newest_valid, verify_checkpoint
from jax_lm.checkpoints.writer import CheckpointWriter

__all__ = [
    "CheckpointWriter",
    "Progress",
    "list_steps",
    "newest_valid",
    "read_best",
    "read_config",
    "read_progress",
    "restore_arrays",
    "save_checkpoint",
    "save_model",
    "step_directory",
    "stored_arrays",
    "verify_checkpoint",
]
