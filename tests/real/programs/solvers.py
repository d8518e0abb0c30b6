"""Jaxopt, optimistix and lineax: minima, roots and linear systems, and gradients through them."""

import jax
import jax.numpy as jnp
import jaxopt
import lineax
import optimistix


def residuals(x, _=None):
    return jnp.concatenate([3 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])


def height(x, _=None):
    return jnp.sum(residuals(x) ** 2)


def run():
    start = jnp.array([-0.5, 0.3, 0.8])
    rows = jax.random.normal(jax.random.key(0), (20, 5))
    wanted = rows @ jnp.arange(5.0) + jax.random.normal(jax.random.key(1), (20,))

    def misfit(weights, much=0.0):
        return jnp.mean((rows @ weights - wanted) ** 2) + much * jnp.sum(weights**2)

    def ridge(much):
        solver = jaxopt.GradientDescent(misfit, maxiter=100, implicit_diff=True)
        return solver.run(jnp.ones(5), much).params.sum()

    def least(rows):
        operator = lineax.MatrixLinearOperator(rows)
        return lineax.linear_solve(operator, wanted, lineax.QR()).value.sum()

    square = lineax.MatrixLinearOperator(rows.T @ rows, lineax.positive_semidefinite_tag)
    band = lineax.TridiagonalLinearOperator(4 * jnp.ones(6), jnp.ones(5), jnp.ones(5))
    positive = jaxopt.projection.projection_non_negative
    return {
        "lbfgs": jaxopt.LBFGS(height, maxiter=60).run(start).params,
        "projected": jaxopt.ProjectedGradient(misfit, positive, maxiter=60).run(jnp.ones(5)).params,
        "ridge": jax.jit(jax.value_and_grad(ridge))(0.1),
        "marquardt": optimistix.least_squares(
            residuals, optimistix.LevenbergMarquardt(1e-5, 1e-5), start
        ).value,
        "newton": optimistix.root_find(
            lambda x, _: x**3 - x - 1, optimistix.Newton(1e-5, 1e-5), jnp.array([1.5, 1.2])
        ).value,
        "conjugate": lineax.linear_solve(square, jnp.ones(5), lineax.CG(1e-6, 1e-6)).value,
        "cholesky": lineax.linear_solve(square, jnp.ones(5), lineax.Cholesky()).value,
        "band": lineax.linear_solve(band, jnp.arange(6.0)).value,
        "through": jax.jit(jax.grad(least))(rows),
    }
