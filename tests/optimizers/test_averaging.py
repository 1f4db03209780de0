from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.optimizers.averaging import averaged


def weights(step: int) -> dict[str, Any]:
    values = np.random.default_rng(step).normal(size=(3, 2))
    return {"weight": jnp.asarray(values, jnp.float32), "frozen": None}


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.9999])
def test_average_in_closed_form(decay: float) -> None:
    """Weights of step i count decay ** (t - i), and the random start counts nothing."""
    average = weights(0)
    step = jax.jit(averaged, static_argnums=2)
    for number in range(1, 31):
        average = step(average, weights(number), decay, jnp.asarray(number))
        shares = np.array([decay ** (number - i) for i in range(1, number + 1)])
        values = np.stack([weights(i)["weight"] for i in range(1, number + 1)])
        expected = np.tensordot(shares / shares.sum(), values.astype(np.float64), 1)
        np.testing.assert_allclose(average["weight"], expected, rtol=1e-5, atol=1e-6)
    assert average["frozen"] is None


def test_average_of_what_stays_is_that() -> None:
    model = weights(1)
    average = averaged(model, model, 0.999, 1)
    np.testing.assert_array_equal(average["weight"], model["weight"])
    for number in (2, 3, 1000):
        average = averaged(average, model, 0.999, number)
    np.testing.assert_array_equal(average["weight"], model["weight"])


def test_average_is_float32() -> None:
    start = {"weight": jnp.zeros(4, jnp.float32)}
    average = averaged(start, {"weight": jnp.ones(4, jnp.bfloat16)}, 0.9, 1)
    assert average["weight"].dtype == jnp.float32
