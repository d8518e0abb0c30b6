"""Flax (linen): a small U-Net learns to take noise away, then draws an image from noise."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

TIMES = 20
SPREAD = jnp.linspace(1e-3, 0.2, TIMES)
KEPT = jnp.cumprod(1 - SPREAD)


class Block(nn.Module):
    channels: int

    @nn.compact
    def __call__(self, x, time):
        y = nn.Conv(self.channels, (3, 3))(nn.swish(nn.GroupNorm(4)(x)))
        y = y + nn.Dense(self.channels)(time)[:, None, None]
        y = nn.Conv(self.channels, (3, 3))(nn.swish(nn.GroupNorm(4)(y)))
        return y + (x if x.shape == y.shape else nn.Conv(self.channels, (1, 1))(x))


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x, time):
        waves = time[:, None] * jnp.exp(-jnp.arange(8.0))
        time = nn.swish(nn.Dense(32)(jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], -1)))
        fine = Block(8)(nn.Conv(8, (3, 3))(x), time)
        coarse = Block(16)(nn.Conv(16, (3, 3), strides=(2, 2))(fine), time)
        batch, height, width, channels = coarse.shape
        flat = coarse.reshape(batch, height * width, channels)
        coarse = coarse + nn.SelfAttention(2)(nn.LayerNorm()(flat)).reshape(coarse.shape)
        wide = jax.image.resize(coarse, (batch, 2 * height, 2 * width, channels), "nearest")
        wide = nn.ConvTranspose(8, (3, 3))(wide)
        return nn.Conv(3, (3, 3))(Block(8)(jnp.concatenate([wide, fine], -1), time))


def run():
    model, optimizer = UNet(), optax.adam(2e-3)
    images = jax.random.normal(jax.random.key(1), (4, 8, 8, 3))
    weights = jax.jit(model.init)(jax.random.key(0), images, jnp.zeros(4))
    state = optimizer.init(weights)

    @jax.jit
    def step(weights, state, key):
        which, noising = jax.random.split(key)
        time = jax.random.randint(which, (4,), 0, TIMES)
        noise = jax.random.normal(noising, images.shape)
        kept = KEPT[time][:, None, None, None]

        def loss(weights):
            noisy = jnp.sqrt(kept) * images + jnp.sqrt(1 - kept) * noise
            return jnp.mean((model.apply(weights, noisy, time.astype(jnp.float32)) - noise) ** 2)

        value, gradient = jax.value_and_grad(loss)(weights)
        change, state = optimizer.update(gradient, state)
        return optax.apply_updates(weights, change), state, value

    @jax.jit
    def draw(weights, key):
        def back(image, told):
            time, key = told
            noise = model.apply(weights, image, jnp.full(2, time, jnp.float32))
            image = (image - SPREAD[time] / jnp.sqrt(1 - KEPT[time]) * noise) / jnp.sqrt(
                1 - SPREAD[time]
            )
            fresh = jax.random.normal(key, image.shape)
            return image + jnp.where(time > 0, jnp.sqrt(SPREAD[time]), 0) * fresh, image.std()

        start, *keys = jax.random.split(key, TIMES + 1)
        image = jax.random.normal(start, (2, 8, 8, 3))
        return jax.lax.scan(back, image, (jnp.arange(TIMES)[::-1], jnp.stack(keys)))

    losses = []
    for number in range(4):
        weights, state, value = step(weights, state, jax.random.key(number))
        losses.append(value)
    image, spreads = draw(weights, jax.random.key(9))
    return {"losses": jnp.stack(losses), "image": image, "spreads": spreads}
