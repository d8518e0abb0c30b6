"""Numpyro: a regression sampled by NUTS and fitted by variational inference."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide, util


def model(x, y):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(3), 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ weights, spread), obs=y)


def run():
    x = jax.random.normal(jax.random.key(0), (100, 3))
    noise = jax.random.normal(jax.random.key(1), (100,))
    y = x @ jnp.array([1.0, -2.0, 0.5]) + 0.1 * noise

    def energy(at):
        return util.potential_energy(model, (x, y), {}, at)

    start = {"weights": jnp.array([0.1, 0.2, 0.3]), "spread": jnp.float32(0.5)}
    chain = MCMC(NUTS(model), num_warmup=150, num_samples=150, progress_bar=False)
    chain.run(jax.random.key(2), x, y)
    guide = autoguide.AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    fitted = svi.run(jax.random.key(3), 100, x, y, progress_bar=False)
    return {
        "energy": jax.jit(jax.value_and_grad(energy))(start),
        # Chains part by rounding: what they say of the posterior does not.
        "posterior": {name: drawn.mean(0) for name, drawn in chain.get_samples().items()},
        "elbo": fitted.losses[:5],
    }
