"""``jax-lm train ... --dry-run``: what a run would take, without it."""

from dataclasses import dataclass

from jax_lm.cli.arguments import take_flag, take_value
from jax_lm.errors import UsageError
from jax_lm.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """How to look at a run."""

    compiling: bool
    """Compile the step, for XLA's own figures."""
    devices: int | None
    """As many as this, made of the CPU; None: those that there are."""

    def run(self, config: TrainConfig) -> None:
        """Print what it would take."""
        import jax

        if self.devices is not None:
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_num_cpu_devices", self.devices)
        from jax_lm.training.dry_run import dry_run

        dry_run(config, compiling=self.compiling)


def take_dry_run(args: list[str]) -> tuple[DryRun | None, list[str]]:
    """What the arguments say of a dry run, if they ask for one, and the others.

    Raises:
        UsageError: --compile or --devices without --dry-run, or a number that is none.
    """
    asked, rest = take_flag(args, "--dry-run")
    compiling, rest = take_flag(rest, "--compile")
    devices, rest = take_value(rest, "--devices")
    if not asked:
        if compiling or devices is not None:
            flag = "--compile" if compiling else "--devices"
            raise UsageError(f"{flag} belongs to --dry-run: add that, or leave {flag} out")
        return None, rest
    if devices is not None and not (devices.isdecimal() and int(devices) > 0):
        raise UsageError(f"--devices is {devices}, expected a number of devices, 1 or more")
    return DryRun(compiling=compiling, devices=None if devices is None else int(devices)), rest
