# SPDX-License-Identifier: MIT
"""JAX at work, with its own account: jax_job.py put|train|full. One line an instant: its name, what XLA's allocator
says of itself, and what the card says is used."""
import ctypes
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

device = jax.devices("cuda")[0]
process = ctypes.CDLL(None)
card = ctypes.CDLL("libcudart.so.12")
MIB = 1 << 20


def mark(name, *arrays):
    jax.block_until_ready(arrays)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert card.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    stats = device.memory_stats()
    books = {key: stats.get(key) for key in ("bytes_in_use", "peak_bytes_in_use", "pool_bytes", "bytes_limit")}
    print(json.dumps({"name": name, "used": total.value - free.value, **books}), flush=True)
    if hasattr(process, "vramshim_mark"):
        process.vramshim_mark(name.encode())


def put(mib):
    return jax.device_put(np.zeros((mib * MIB // 4,), np.float32), device)


def loss(weights, x):
    for w in weights[:-1]:
        x = jax.nn.gelu(x @ w)
    return jnp.mean(jax.nn.log_softmax(x @ weights[-1]))


@jax.jit
def step(weights, momenta, x):
    value, gradients = jax.value_and_grad(loss)(weights, x)
    momenta = [0.9 * m + g for m, g in zip(momenta, gradients)]
    return [w - 0.01 * m for w, m in zip(weights, momenta)], momenta, value


def main():
    mark("started")
    if sys.argv[1] == "put":
        arrays = [put(mib) for mib in (1, 3, 16, 16, 40, 100)]
        mark("fullest", *arrays)
        del arrays[2:]  # in a thread of XLA's, at some time
    elif sys.argv[1] == "train":
        weights = [put(4).reshape(1024, 1024) for _ in range(4)]
        momenta = [jnp.zeros_like(w) for w in weights]
        x = put(8).reshape(2048, 1024)
        for _ in range(3):
            weights, momenta, value = step(weights, momenta, x)
        print(float(value))
        mark("trained", *weights, *momenta)
    else:
        arrays = []
        try:
            while True:
                # XLA waits for 10 s for somebody to free memory; the error is the array's, and comes with it.
                array = jnp.zeros((4096 * MIB // 4,), jnp.float32, device=device)
                arrays.append(array.block_until_ready())
        except jax.errors.JaxRuntimeError as error:
            print(str(error).split(":")[0], len(arrays))
        mark("full", *arrays)


main()
