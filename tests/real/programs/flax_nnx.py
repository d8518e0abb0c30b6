"""Flax nnx: a transformer block on made-up words, its state in mutable modules."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

WORDS, WIDTH, LENGTH = 31, 16, 12


class Block(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(4, WIDTH, decode=False, rngs=rngs)
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, words):
        x = self.embed(words)
        x = x + self.attend(self.norm(x), mask=nnx.make_causal_mask(words))
        x = x + self.down(nnx.silu(self.up(self.norm(x))))
        return self.embed.attend(x)


def run():
    model = Block(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    words = jax.random.randint(jax.random.key(1), (6, LENGTH), 0, WORDS)

    @nnx.jit
    def train_step(model, optimizer):
        def loss_of(model):
            logits = model(words[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, words[:, 1:]).mean()

        loss, gradients = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, gradients)
        return loss

    return {"losses": jnp.stack([train_step(model, optimizer) for _ in range(6)])}
