"""The devices that share the work of writing texts."""

import jax
from jax.sharding import Mesh

from jax_lm.sharding.mesh import make_mesh


def usual_mesh() -> Mesh | None:
    """All devices, or None where there is one alone."""
    return make_mesh() if jax.device_count() > 1 else None
