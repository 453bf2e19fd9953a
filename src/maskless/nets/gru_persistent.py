"""The GRU's loops as one GPU kernel each, for Hopper: the weights stay where they are used.

With a kernel per step (`gru_kernel`) every step reads all weights again. Here the eight blocks of a
cluster share the work of one run for all steps: each keeps the weights of 64 units in its shared
memory, and what the others need of the state passes through memory, which the cache holds.

A block's two warpgroups ("halves") each compute 64 rows of the batch. A row never needs another
row, so the halves do not wait for each other: while one computes gates, the other has the tensor
cores. A half only waits for the same half of the seven other blocks, once per step.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Bool, Float

from maskless.nets.gru import slopes

ROWS, UNITS, BLOCKS = 64, 64, 8
"""Rows of a half, units of a block, blocks of a cluster."""
BATCH, WIDTH = 2 * ROWS, UNITS * BLOCKS
CHUNK, SLOTS = 32, 4
"""Numbers of a row that a product adds up at once, and how many chunks are on their way."""
LAYOUT = plgpu.Layout.WGMMA


def fits(batch: int, width: int, runs: int) -> bool:
    """On Hopper GPUs, for the one size that just fits into shared memory."""
    if (batch, width) != (BATCH, WIDTH):
        return False
    return getattr(jax.devices()[0], "compute_capability", "") == "9.0"


def forward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    state: Float[Array, "*runs batch width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    interpret: Any = None,
) -> tuple[Array, ...]:
    """The last state, the states of all steps; and h before each and U h, for the derivative."""
    *runs, time, _ = reset.shape
    merged = max(1, state.size // (BATCH * WIDTH))
    rows = merged * time * BATCH
    shapes = [
        jax.ShapeDtypeStruct((merged * BATCH, WIDTH), jnp.float32),
        jax.ShapeDtypeStruct((rows, WIDTH), kernel.dtype),
        jax.ShapeDtypeStruct((rows, WIDTH), kernel.dtype),
        jax.ShapeDtypeStruct((rows, 3 * WIDTH), kernel.dtype),
    ]
    call = _kernel(partial(_forward, time), shapes, merged, (WIDTH // CHUNK, CHUNK, 3 * UNITS), interpret)
    by_block = kernel.reshape(merged, WIDTH, 3, BLOCKS, UNITS).transpose(0, 3, 1, 2, 4)
    last, *kept = call(
        by_block.reshape(-1, 3 * UNITS),
        candidate_bias.reshape(-1),
        state.reshape(-1, WIDTH),
        projected.reshape(-1, 3 * WIDTH),
        reset.astype(jnp.int32).reshape(-1),
    )
    kept = [x.reshape(*runs, time, BATCH, -1) for x in kept]
    return last.reshape(*runs, BATCH, WIDTH), *kept


def backward_loop(
    kernel: Float[Array, "*runs width gates"],
    candidate_bias: Float[Array, "*runs width"],
    projected: Float[Array, "*runs time batch gates"],
    reset: Bool[Array, "*runs time batch"],
    remembered: Float[Array, "*runs time batch width"],
    recalled: Float[Array, "*runs time batch gates"],
    wanted_last: Float[Array, "*runs batch width"],
    wanted: Float[Array, "*runs time batch width"],
    interpret: Any = None,
) -> tuple[Array, ...]:
    """The derivatives by the first state, by U h and W x of each step, and by both biases."""
    *runs, time, _ = reset.shape
    merged = max(1, wanted_last.size // (BATCH * WIDTH))
    by_gates = jax.ShapeDtypeStruct((merged * time * BATCH, 3 * WIDTH), kernel.dtype)
    shapes = [jax.ShapeDtypeStruct((merged * BATCH, WIDTH), jnp.float32), by_gates, by_gates]
    call = _kernel(partial(_backward, time), shapes, merged, (3 * WIDTH // CHUNK, UNITS, CHUNK), interpret)
    first, *by_sums = call(
        kernel.reshape(-1, 3 * WIDTH),
        candidate_bias.reshape(-1),
        projected.reshape(-1, 3 * WIDTH),
        reset.astype(jnp.int32).reshape(-1),
        remembered.reshape(-1, WIDTH),
        recalled.reshape(-1, 3 * WIDTH),
        wanted_last.reshape(-1, WIDTH),
        wanted.reshape(-1, WIDTH),
    )
    by_recalled, by_projected = (x.reshape(*runs, time, BATCH, -1) for x in by_sums)
    from maskless.nets.gru import bias_sums

    first = first.reshape(*runs, BATCH, WIDTH)
    return first, by_recalled, by_projected, *bias_sums(by_recalled, by_projected)


def _kernel(body: Any, shapes: list, runs: int, weights: tuple[int, ...], interpret: Any) -> Any:
    """A function of whole arrays, which all have two axes: rows (of all runs and steps), numbers."""
    swizzled = plgpu.TilingTransform((8, CHUNK)), plgpu.SwizzleTransform(2 * CHUNK)
    return plgpu.kernel(
        body,
        out_type=shapes,
        scratch_types=[
            plgpu.SMEM(weights, jnp.bfloat16, transforms=swizzled),
            plgpu.SMEM((2 * SLOTS, ROWS, CHUNK), jnp.bfloat16, transforms=swizzled),
            plgpu.Barrier(num_arrivals=weights[0]),
            plgpu.Barrier(num_barriers=2 * SLOTS),
            plgpu.ClusterBarrier(collective_axes=("block",), num_barriers=2),
        ],
        grid=(runs,),
        grid_names=("run",),
        cluster=(BLOCKS,),
        cluster_names=("block",),
        num_threads=2,
        thread_name="half",
        compiler_params=plgpu.CompilerParams(approx_math=True, reduction_scratch_bytes=0),
        interpret=interpret,
        kernel_name=body.func.__name__.strip("_") + "_persistent",
    )


def _sigmoid(x: Array) -> Array:
    """1 / y as 1 / sqrt(y)^2: an instruction of its own, and a division is not."""
    root = jax.lax.rsqrt(1.0 + jnp.exp2(x * -1.4426950408889634))
    return root * root


def _gates(inputs: list[Array], recalled: list[Array], bias: Array) -> tuple[Array, ...]:
    """r, z, n and U h + b of the candidate, as `gru.gates` has them."""
    r, z = (_sigmoid(_float(x) + _float(h)) for x, h in zip(inputs[:2], recalled[:2], strict=True))
    inner = _float(recalled[2]) + bias
    return r, z, 2.0 * _sigmoid(2.0 * (_float(inputs[2]) + r * inner)) - 1.0, inner


def _float(x: Array) -> Array:
    return x.astype(jnp.float32)


class _Half:
    """What one warpgroup works with: its rows, its part of the shared memory, its barriers."""

    def __init__(self, time: int, slots: Any, loaded: Any, exchanged: Any) -> None:
        self.time = time
        self.run, self.block, self.half = (jax.lax.axis_index(x) for x in ("run", "block", "half"))
        self.own = pl.ds(self.block * UNITS, UNITS)
        self._slots, self._loaded, self._exchanged = slots, loaded, exchanged

    def rows(self, t: Any) -> Any:
        """Its rows at a time, of arrays that have all runs and times one below the other."""
        return pl.ds(((self.run * self.time + t) * 2 + self.half) * ROWS, ROWS)

    def without_time(self) -> Any:
        return pl.ds((self.run * 2 + self.half) * ROWS, ROWS)

    def load_bias(self, bias: Any) -> Array:
        own = bias.at[pl.ds(self.run * WIDTH + self.block * UNITS, UNITS)]
        loaded = plgpu.load(own, layout=LAYOUT.reduce(0), optimized=False)
        return jax.lax.broadcast_in_dim(loaded, (ROWS, UNITS), (1,))

    def gate(self, gate: int) -> Any:
        return pl.ds(gate * WIDTH + self.block * UNITS, UNITS)

    def slot(self, i: int) -> Any:
        return self._slots.at[self.half * SLOTS + i % SLOTS]

    def start_loading(self, source: Any, rows: Any, chunk: int) -> None:
        part = source.at[rows, pl.ds(chunk * CHUNK, CHUNK)]
        plgpu.copy_gmem_to_smem(part, self.slot(chunk), self._barrier(chunk))

    def _barrier(self, i: int) -> Any:
        return self._loaded.at[self.half * SLOTS + i % SLOTS]

    def product(self, source: Any, rows: Any, weights: list, units: int) -> Array:
        """Rows of `source` times the weights, chunks of [CHUNK, units]."""
        chunks = len(weights)
        for i in range(SLOTS - 1):
            self.start_loading(source, rows, i)

        def add_up(sums: Any) -> Array:
            for i in range(chunks):
                plgpu.barrier_wait(self._barrier(i))
                plgpu.wgmma(sums, self.slot(i), weights[i])
                plgpu.wgmma_wait(1)  # all but the last: the slot before is free
                if i + SLOTS - 1 < chunks:
                    self.start_loading(source, rows, i + SLOTS - 1)
            return sums[...]

        return pl.run_scoped(add_up, plgpu.ACC((ROWS, units), jnp.float32))

    def start_writing(self, value: Array, buffer: int, rows: Any, *targets: Any) -> None:
        """Through shared memory, since registers hold small pieces of rows.

        A target is an array and the gate whose columns to write. The slots make two buffers."""
        pieces = UNITS // CHUNK
        slots = [self.slot(buffer * pieces + i) for i in range(pieces)]
        for i, slot in enumerate(slots):
            slot[...] = value[:, i * CHUNK : (i + 1) * CHUNK].astype(slot.dtype)
        plgpu.commit_smem()
        for target, gate in targets:
            first = gate * WIDTH + self.block * UNITS
            for i, slot in enumerate(slots):
                part = target.at[rows, pl.ds(first + i * CHUNK, CHUNK)]
                plgpu.copy_smem_to_gmem(slot, part)

    def tell_the_others(self) -> None:
        plgpu.barrier_arrive(self._exchanged.at[self.half])

    def wait_for_the_others(self) -> None:
        plgpu.barrier_wait(self._exchanged.at[self.half])


def _load(source: Any, rows: Any, columns: Any) -> Array:
    return plgpu.load(source.at[rows, columns], layout=LAYOUT, optimized=False)


def _at_start(reset: Any, rows: Any) -> Array:
    """Whether an episode starts: of each row, for all its units."""
    flags = plgpu.load(reset.at[rows], layout=LAYOUT.reduce(1), optimized=False)
    return jax.lax.broadcast_in_dim(flags, (ROWS, UNITS), (0,)) != 0


def _load_weights(parts: list, chunks: list, ready: Any) -> None:
    @pl.when(jax.lax.axis_index("half") == 0)
    def start() -> None:
        for part, chunk in zip(parts, chunks, strict=True):
            plgpu.copy_gmem_to_smem(part, chunk, ready)

    plgpu.barrier_wait(ready)


def _forward(time: int, *refs: Any) -> None:
    weights_given, bias_given, state, projected, reset = refs[:5]
    last, states, remembered, recalled = refs[5:9]
    weights, slots, ready, loaded, exchanged = refs[9:]
    half = _Half(time, slots, loaded, exchanged)
    first_row = (half.run * BLOCKS + half.block) * WIDTH
    chunks = [weights.at[i] for i in range(weights.shape[0])]
    parts = [weights_given.at[pl.ds(first_row + i * CHUNK, CHUNK)] for i in range(len(chunks))]
    _load_weights(parts, chunks, ready)
    bias = half.load_bias(bias_given)

    def remember(h: Array, t: Any) -> None:
        """h before step t, for the other blocks too; none follows the last step."""
        rows = half.rows(jnp.minimum(t, time - 1))
        h = jnp.where(_at_start(reset, rows), 0.0, h)

        @pl.when(t < time)
        def write() -> None:
            half.start_writing(h, 0, rows, (remembered, 0))
            plgpu.wait_smem_to_gmem(0)

        half.tell_the_others()

    def step(t: Any, h: Array) -> Array:
        rows = half.rows(t)
        inputs = [_load(projected, rows, half.gate(gate)) for gate in range(3)]
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        half.wait_for_the_others()
        sums = half.product(remembered, rows, chunks, 3 * UNITS)
        parts = [sums[:, i * UNITS : (i + 1) * UNITS].astype(recalled.dtype) for i in range(3)]
        _, z, n, _ = _gates(inputs, parts, bias)
        h = jnp.where(_at_start(reset, rows), 0.0, h)
        h = (1.0 - z) * n + z * h
        remember(h, t + 1)
        half.start_writing(parts[0], 0, rows, (recalled, 0))
        half.start_writing(parts[1], 1, rows, (recalled, 1))
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        half.start_writing(parts[2], 0, rows, (recalled, 2))
        half.start_writing(h, 1, rows, (states, 0))
        return h

    h = _load(state, half.without_time(), half.own)
    remember(h, 0)
    h = jax.lax.fori_loop(0, time, step, h)
    half.wait_for_the_others()  # none may leave while another still tells it something
    last[half.without_time(), half.own] = h
    plgpu.wait_smem_to_gmem(0)


def _backward(time: int, *refs: Any) -> None:
    weights_given, bias_given, projected, reset, remembered, recalled, wanted_last, wanted = refs[:8]
    first, by_recalled, by_projected = refs[8:11]
    weights, slots, ready, loaded, exchanged = refs[11:]
    half = _Half(time, slots, loaded, exchanged)
    own_rows = pl.ds((half.run * BLOCKS + half.block) * UNITS, UNITS)
    chunks = [weights.at[i] for i in range(weights.shape[0])]
    columns = [pl.ds(i * CHUNK, CHUNK) for i in range(len(chunks))]
    _load_weights([weights_given.at[own_rows, c] for c in columns], chunks, ready)
    bias = half.load_bias(bias_given)
    transposed = [x.transpose((1, 0)) for x in chunks]

    def step(i: Any, later: Array) -> Array:
        rows = half.rows(time - 1 - i)
        inputs, states = ([_load(x, rows, half.gate(g)) for g in range(3)] for x in (projected, recalled))
        total = later + _float(_load(wanted, rows, half.own))
        before = _float(_load(remembered, rows, half.own))
        r, z, n, inner = _gates(inputs, states, bias)
        by_r, by_z, by_state_n, by_n = slopes(total, before, r, z, n, inner)
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        half.start_writing(by_r, 0, rows, (by_recalled, 0), (by_projected, 0))
        half.start_writing(by_z, 1, rows, (by_recalled, 1), (by_projected, 1))
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        half.start_writing(by_state_n, 0, rows, (by_recalled, 2))
        plgpu.wait_smem_to_gmem(0)
        half.tell_the_others()
        half.start_writing(by_n, 1, rows, (by_projected, 2))
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        half.wait_for_the_others()
        through = half.product(by_recalled, rows, transposed, UNITS)
        return jnp.where(_at_start(reset, rows), 0.0, total * z + through)

    later = _load(wanted_last, half.without_time(), half.own)
    later = jax.lax.fori_loop(0, time, step, later)
    first[half.without_time(), half.own] = later
    plgpu.wait_smem_to_gmem(0)
