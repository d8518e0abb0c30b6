"""Random numbers: the bits must be exactly XLA's; what is made of them, within tolerance."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, uniform

KEYS = {"threefry2x32": np.uint32([7, 42]), "rbg": np.uint32([1, 2, 3, 4])}
KEYS["unsafe_rbg"] = KEYS["rbg"]

random = jax.random
SAMPLES = {
    "bits-32": lambda k: random.bits(k, (3, 5)),
    "bits-8": lambda k: random.bits(k, (7,), "uint8"),
    "bits-16": lambda k: random.bits(k, (3, 3), "uint16"),
    "bits-64": lambda k: random.bits(k, (5,), "uint64"),
    "uniform": lambda k: random.uniform(k, (4, 3)),
    "uniform-range": lambda k: random.uniform(k, (9,), minval=-2, maxval=5),
    "uniform-f64": lambda k: random.uniform(k, (5,), "float64"),
    "uniform-bf16": lambda k: random.uniform(k, (5,), "bfloat16"),
    "uniform-f16": lambda k: random.uniform(k, (5,), "float16"),
    "normal": lambda k: random.normal(k, (4, 3)),
    "normal-f64": lambda k: random.normal(k, (4,), "float64"),
    "normal-complex": lambda k: random.normal(k, (4,), "complex64"),
    "integers": lambda k: random.randint(k, (9,), -5, 100),
    "integers-8": lambda k: random.randint(k, (9,), 0, 100, "int8"),
    "integers-64": lambda k: random.randint(k, (9,), 0, 10**12, "int64"),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (20,)),
    "categorical": lambda k: random.categorical(k, jnp.arange(6.0), shape=(12,)),
    "choice": lambda k: random.choice(k, 20, (8,), replace=False),
    "choice-weighted": lambda k: random.choice(k, 5, (8,), p=jnp.array([0.1, 0.2, 0.3, 0.2, 0.2])),
    "permutation": lambda k: random.permutation(k, 17),
    "permutation-rows": lambda k: random.permutation(k, jnp.arange(12.0).reshape(4, 3), axis=1),
    "exponential": lambda k: random.exponential(k, (6,)),
    "laplace": lambda k: random.laplace(k, (6,)),
    "gumbel": lambda k: random.gumbel(k, (6,)),
    "cauchy": lambda k: random.cauchy(k, (6,)),
    "logistic": lambda k: random.logistic(k, (6,)),
    "truncated": lambda k: random.truncated_normal(k, -1, 2, (6,)),
    "rayleigh": lambda k: random.rayleigh(k, 2.0, (4,)),
    "weibull": lambda k: random.weibull_min(k, 2.0, 1.5, (4,)),
    "maxwell": lambda k: random.maxwell(k, (4,)),
    "pareto": lambda k: random.pareto(k, 3.0, (4,)),
    "geometric": lambda k: random.geometric(k, 0.3, (6,)),
    "rademacher": lambda k: random.rademacher(k, (6,)),
    "gamma": lambda k: random.gamma(k, 2.5, (5,)),
    "beta": lambda k: random.beta(k, 2.0, 3.0, (4,)),
    "dirichlet": lambda k: random.dirichlet(k, jnp.ones(3), (2,)),
    "poisson": lambda k: random.poisson(k, 4.0, (6,)),
    "poisson-large": lambda k: random.poisson(k, 40.0, (6,)),
    "binomial": lambda k: random.binomial(k, 10, 0.4, (5,)),
    "ball": lambda k: random.ball(k, 3, shape=(2,)),
    "t": lambda k: random.t(k, 3.0, (4,)),
    "double-sided": lambda k: random.double_sided_maxwell(k, 0.0, 1.0, (4,)),
    "split": lambda k: tuple(random.key_data(x) for x in random.split(k, 3)),
    "fold-in": lambda k: random.key_data(random.fold_in(k, 99)),
    "batched": lambda k: jax.vmap(lambda k: random.normal(k, (3,)))(random.split(k, 4)),
    "loop": lambda k: lax.fori_loop(
        0, 4, lambda i, x: x + random.normal(random.fold_in(k, i), (3,)), jnp.zeros(3)
    ),
}


def samples() -> None:
    for kind, data in KEYS.items():
        for name, sample in SAMPLES.items():
            if kind == "unsafe_rbg" and name not in (
                "bits-32",
                "normal",
                "split",
                "fold-in",
                "loop",
            ):
                continue
            if kind == "rbg" and name in ("poisson", "poisson-large"):
                continue
            add(
                f"randomness/{kind}-{name}",
                lambda data, s=sample, k=kind: s(random.wrap_key_data(data, impl=k)),
                data,
                slack=8,
            )


def generators() -> None:
    for algorithm in ("RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"):
        which = getattr(lax.RandomAlgorithm, algorithm)
        for of in ("uint8", "uint16", "uint32", "uint64"):
            for dims in ((7,), (3, 4), (2, 3, 5), (1,), (0,)):
                label = f"randomness/{algorithm}-{of}-{'x'.join(map(str, dims))}"
                add(
                    label,
                    lambda k, w=which, o=of, d=dims: lax.rng_bit_generator(k, d, o, algorithm=w),
                    np.uint32([9, 0, 2**31, 17]),
                )
    wide = np.uint64([3, 2**63 + 1])
    add(
        "randomness/state-64",
        lambda k: lax.rng_bit_generator(k, (6,), algorithm=lax.RandomAlgorithm.RNG_PHILOX),
        wide[:2].view(np.uint32),
    )
    top = np.uint32([2**32 - 1] * 4)
    add("randomness/state-carries", lambda k: lax.rng_bit_generator(k, (40,)), top)
    add(
        "randomness/dropout",
        lambda k, x: jnp.where(random.bernoulli(random.wrap_key_data(k), 0.8, x.shape), x / 0.8, 0),
        KEYS["threefry2x32"],
        uniform(5, 4),
    )


samples()
generators()
