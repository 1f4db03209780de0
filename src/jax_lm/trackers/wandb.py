"""Weights & Biases: the same numbers under the same names, online or kept for later."""

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jax_lm.errors import missing_extra
from jax_lm.trackers.base import Histogram
from jax_lm.trackers.samples import whole_text

RUN_FILE = "wandb-run.json"
"""In the run directory: which run of theirs this is, and the last step it was given."""
SAMPLE_COLUMNS = ("step", "prompt", "text")


@dataclass(frozen=True, kw_only=True)
class WandbSettings:
    """Where the run is logged to."""

    project: str
    entity: str | None = None
    """User or team that owns the project; None: the account's default."""
    mode: Literal["online", "offline"] = "online"
    another_run: bool = False
    """Begin another run of theirs on resume, for the numbers to come are not those of before."""


class WandbTracker:
    """One row a step, sent whole once the next step begins.

    Their runs only grow: a step that was sent cannot be sent again. A resumed run that takes steps
    a second time (it computes the same numbers) therefore leaves out those that are there already;
    one whose configuration has changed begins another run, which names the one that it continues.
    Nothing of the machine is uploaded but what is in ``config``: neither console output nor the
    command line, the host's name or the git remote, any of which may hold a secret.
    """

    def __init__(
        self,
        run_dir: Path,
        settings: WandbSettings,
        config: Mapping[str, Any],
        *,
        resume_step: int | None = None,
    ) -> None:
        """Open the run of ``run_dir``, or go on with it.

        Args:
            run_dir: gets ``wandb-run.json`` and, in ``wandb/``, what is not uploaded yet.
            settings: the project.
            config: the resolved configuration, without secrets.
            resume_step: the checkpoint's step, or None for a new run.
        """
        import wandb

        run_dir.mkdir(parents=True, exist_ok=True)
        self._file, self._offline = run_dir / RUN_FILE, settings.mode == "offline"
        earlier = _read(self._file) if resume_step is not None else {}
        before = {} if settings.another_run else earlier
        self._id = before.get("id") or secrets.token_hex(4)
        self._run: Any = wandb.init(
            project=settings.project,
            entity=settings.entity,
            mode=settings.mode,
            dir=str(run_dir),
            name=run_dir.resolve().name,
            id=self._id,
            resume="allow",
            config={**config, **({"continues": earlier["id"]} if earlier and not before else {})},
            settings=private_settings(),
        )
        # Online the server knows what it has; rows that a kill lost on the way are sent again.
        self._sent = before.get("step", -1) if self._offline else self._run.step - 1
        self._step, self._row, self._texts = self._sent, dict[str, Any](), list[list[Any]]()
        self._remember()
        later = f"{run_dir / 'wandb'} (to upload it: cd {run_dir} && wandb sync)"
        where = later if self._offline else self._run.url
        sys.stderr.write(f"wandb     run {self._id}: {where}\n")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add metrics to the row of ``step``."""
        self._add(step, {name: float(value) for name, value in metrics.items()})

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Add a line to the table ``samples`` of ``step``."""
        self._add(step, {})
        whole = whole_text(prompt, text)
        line = [step, _encodable(prompt), _encodable(whole)]
        self._texts.append(line)

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Add distributions to the row of ``step``."""
        import wandb

        self._add(step, {name: wandb.Histogram(np_histogram=one) for name, one in values.items()})

    def close(self) -> None:
        """Send the last row and wait until all is uploaded."""
        if self._run is not None:
            self._send()
            self._run.finish()
        self._run = None

    def _add(self, step: int, values: Mapping[str, Any]) -> None:
        if step != self._step:
            self._send()
            self._step = step
        self._row |= values

    def _send(self) -> None:
        """Send the row, if there is one and its step is new to the run."""
        import wandb

        step, row, texts = self._step, self._row, self._texts
        self._row, self._texts = {}, []
        if self._run is None or step <= self._sent or not (row or texts):
            return
        if texts:
            row["samples"] = wandb.Table(columns=list(SAMPLE_COLUMNS), data=texts)
        self._run.log(row, step=step)
        self._sent = step
        self._remember()

    def _remember(self) -> None:
        temporary = self._file.with_name(f"_{RUN_FILE}.tmp")
        temporary.write_text(json.dumps({"id": self._id, "step": self._sent}) + "\n")
        temporary.replace(self._file)


def private_settings() -> Any:
    """Settings of a run of theirs that uploads nothing of the machine."""
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def require_wandb(flag: str = "--tracking.wandb-project") -> None:
    """Refuse to start what logs to a tracker that is not there.

    Args:
        flag: that asked for it.

    Raises:
        JaxLMError: wandb is not installed.
    """
    try:
        import wandb  # noqa: F401
    except ImportError as error:
        raise missing_extra("wandb", "wandb", flag) from error


def _read(path: Path) -> dict[str, Any]:
    """The run's id and last step; none where the file is not there or not ours."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()
