"""The GRU's loops as one GPU kernel each, for Hopper: the weights stay where they are used.

With a kernel per step (`gru_kernel`) every step reads all weights again. Here the eight blocks of a
cluster share the work of one run for all steps: each keeps the weights of 64 units in its shared
memory, and what the others need of the state passes through memory, which the cache holds.

A block's two warpgroups ("halves") each compute 64 rows of the batch. A row never needs another
row, so the halves do not wait for each other: while one computes gates, the other has the tensor
cores. A half only waits for the same half of the seven other blocks, once per step.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxtyping import Array, Bool, Float

from maskless.nets.gru import bias_sums as sum_for_biases
from maskless.nets.gru import slopes

ROWS, UNITS, BLOCKS = 64, 64, 8
"""Rows of a half, units of a block, blocks of a cluster."""
BATCH, WIDTH = 2 * ROWS, UNITS * BLOCKS
CHUNK, SLOTS = 32, 4
"""Numbers of a row that a product adds up at once, and how many chunks are on their way."""
LAYOUT = plgpu.Layout.WGMMA
PRELOAD, PREFETCH, DIRECT, SUMS = False, True, True, True
SKIP: set[str] = set()
MEMORY = True
PROFILE = ""


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
    weights = WIDTH // CHUNK, CHUNK, 3 * UNITS
    call = _kernel(
        partial(_forward, time),
        shapes,
        merged,
        weights,
        weights[0],
        {"side": 2} if MEMORY else {"block": BLOCKS},
        interpret,
    )
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
    first = jax.ShapeDtypeStruct((merged * BATCH, WIDTH), jnp.float32)
    halves = jax.ShapeDtypeStruct((merged * BLOCKS * 2 * BATCH, 2 * UNITS), kernel.dtype)
    weights = 3 * WIDTH // 2 // CHUNK, 2 * UNITS, CHUNK
    sums = jax.ShapeDtypeStruct((merged * BLOCKS * 2 * ROWS, CHUNK), jnp.float32)
    shapes = [first, by_gates, by_gates, halves, sums]
    call = _kernel(
        partial(_backward, time),
        shapes,
        merged,
        weights,
        2 * weights[0],
        {"side": 2} if MEMORY else {"pair": BLOCKS // 2, "side": 2},
        interpret,
    )
    first, *by_sums, _, sums = call(
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
    first = first.reshape(*runs, BATCH, WIDTH)
    if SUMS:
        pieces = UNITS // CHUNK
        sums = sums.reshape(*runs, BLOCKS, 2, 4, pieces, -1, CHUNK)[..., 0, :].sum(-4)
        sums = jnp.moveaxis(sums, -4, -3).reshape(*runs, 4, WIDTH)
        by_bias = sums[..., jnp.array([0, 1, 3]), :].reshape(*runs, 3 * WIDTH)
        return first, by_recalled, by_projected, by_bias, sums[..., 2, :]
    return first, by_recalled, by_projected, *sum_for_biases(by_recalled, by_projected)


def _kernel(
    body: Any,
    shapes: list,
    runs: int,
    weights: tuple[int, ...],
    copies: int,
    cluster: dict[str, int],
    interpret: Any,
) -> Any:
    """A function of arrays with two axes: rows (of all runs and steps), numbers."""
    swizzled = plgpu.TilingTransform((8, CHUNK)), plgpu.SwizzleTransform(2 * CHUNK)
    return plgpu.kernel(
        body,
        out_type=shapes,
        scratch_types=[
            plgpu.SMEM(weights, jnp.bfloat16, transforms=swizzled),
            plgpu.SMEM((2 * SLOTS, ROWS, CHUNK), jnp.bfloat16, transforms=swizzled),
            plgpu.Barrier(num_arrivals=copies),
            plgpu.Barrier(num_barriers=2 * SLOTS),
            *(plgpu.ClusterBarrier(collective_axes=(x,), num_barriers=2) for x in cluster),
        ],
        grid=(runs, BLOCKS // 2) if MEMORY else (runs,),
        grid_names=("run", "pair") if MEMORY else ("run",),
        cluster=tuple(cluster.values()),
        cluster_names=tuple(cluster),
        num_threads=2,
        thread_name="half",
        compiler_params=plgpu.CompilerParams(
            approx_math=True,
            reduction_scratch_bytes=0,
            **(
                dict(profile_space=84, profile_dir=PROFILE, profile_bounds_check=True)
                if PROFILE
                else {}
            ),
        ),
        interpret=interpret,
        kernel_name=body.func.__name__.strip("_") + "_persistent",
    )


class _Half:
    """What one warpgroup works with: its rows and columns, its part of the shared memory."""

    def __init__(self, time: int, block: Any, shared: Any) -> None:
        self.time = time
        self.run, self.block, self.half = (
            jax.lax.axis_index("run"),
            block,
            jax.lax.axis_index("half"),
        )
        self.own = self.gate(0)
        self.weights, self._slots, self._ready, self._loaded, *exchanged = shared
        self.exchanged = [x.at[self.half] for x in exchanged]

    def rows(self, t: Any) -> Any:
        """Its rows at a time, of arrays that have all runs and times one below the other."""
        return pl.ds(((self.run * self.time + t) * 2 + self.half) * ROWS, ROWS)

    def without_time(self) -> Any:
        return pl.ds((self.run * 2 + self.half) * ROWS, ROWS)

    def gate(self, gate: int) -> Any:
        """Its columns of a gate."""
        return pl.ds(gate * WIDTH + self.block * UNITS, UNITS)

    def load_weights(self, parts: list[tuple[Any, Any]]) -> None:
        """From global to shared memory."""

        @pl.when(self.half == 0)
        def start() -> None:
            for part, target in parts:
                plgpu.copy_gmem_to_smem(part, target, self._ready)

        plgpu.barrier_wait(self._ready)

    def load_bias(self, bias: Any) -> Array:
        own = bias.at[pl.ds(self.run * WIDTH + self.block * UNITS, UNITS)]
        loaded = plgpu.load(own, layout=LAYOUT.reduce(0), optimized=False)
        return jax.lax.broadcast_in_dim(loaded, (ROWS, UNITS), (1,))

    def product(self, parts: list, weights: list) -> Array:
        """The sum of products of parts [ROWS, CHUNK] in global memory with weights."""
        if "product" in SKIP:
            parts, weights = parts[:4], weights[:4]
        for i, part in enumerate(parts[: SLOTS - 1]):
            self.start_loading(part, i)

        def add_up(sums: Any) -> Array:
            for i, chunk in enumerate(weights):
                plgpu.barrier_wait(self._barrier(i))
                plgpu.wgmma(sums, self._slot(i), chunk)
                plgpu.wgmma_wait(1)  # all but the last: the slot before is free
                if i + SLOTS - 1 < len(parts):
                    self.start_loading(parts[i + SLOTS - 1], i + SLOTS - 1)
            return sums[...]

        total = pl.run_scoped(add_up, plgpu.ACC((ROWS, weights[0].shape[1]), jnp.float32))
        plgpu.commit_smem()  # each warp has waited for itself: now all have read their slots
        return total

    def start_loading(self, part: Any, i: int) -> None:
        plgpu.copy_gmem_to_smem(part, self._slot(i), self._barrier(i))

    def start_writing(self, value: Array, buffer: int, *targets: tuple[Any, Any, Any]) -> None:
        """To columns of arrays, through shared memory: registers hold small pieces of rows.

        The slots make two buffers.
        """
        slots = self._buffer(buffer)
        for i, slot in enumerate(slots):
            slot[...] = value[:, i * CHUNK : (i + 1) * CHUNK].astype(slot.dtype)
        plgpu.commit_smem()
        for target, rows, columns in targets:
            for slot, part in zip(slots, _chunks(target, rows, columns), strict=True):
                plgpu.copy_smem_to_gmem(slot, part)

    def sums_of_rows(self, arrays: dict[int, int]) -> Array:
        """Of what the buffers hold: `arrays` says which array (of four) each of them is.

        A product with ones would have each sum 64 times. This one has ones in some rows only, so
        that there is room for all four arrays, one below the other.
        """
        pieces = UNITS // CHUNK
        row = plgpu.broadcasted_iota(jnp.int32, (ROWS, ROWS), 0, layout=LAYOUT)
        group = jax.lax.shift_right_logical(row, int(math.log2(ROWS // (4 * pieces))))

        def add_up(sums: Any) -> Array:
            for buffer, array in arrays.items():
                for i, slot in enumerate(self._buffer(buffer)):
                    ones = (group == array * pieces + i).astype(slot.dtype)
                    plgpu.wgmma(sums, ones, slot)
            return sums[...]

        return pl.run_scoped(add_up, plgpu.ACC((ROWS, CHUNK), jnp.float32))

    def swap(self, values: list[Array], side: Any) -> list[Array]:
        pieces = [x[:, i : i + CHUNK] for x in values for i in range(0, UNITS, CHUNK)]
        for i, x in enumerate(pieces):
            plgpu.async_store_smem(
                x, self._slot(i), self._barrier(i), cluster_idx=side, cluster_dim="side"
            )
        for i in range(len(pieces)):
            plgpu.barrier_wait(self._barrier(i))
        return [plgpu.load(self._slot(i), layout=LAYOUT) for i in range(len(pieces))]

    def read(self, source: Any, rows: Any, columns: Any) -> Array:
        """Both buffers are used: half the columns come through each."""
        parts = _chunks(source, rows, columns)
        for i, part in enumerate(parts):
            self.start_loading(part, i)
        for i in range(len(parts)):
            plgpu.barrier_wait(self._barrier(i))
        chunks = [plgpu.load(self._slot(i), layout=LAYOUT) for i in range(len(parts))]
        return chunks

    def _buffer(self, i: int) -> list:
        pieces = UNITS // CHUNK
        return [self._slot(i * pieces + j) for j in range(pieces)]

    def _slot(self, i: int) -> Any:
        return self._slots.at[self.half * SLOTS + i % SLOTS]

    def _barrier(self, i: int) -> Any:
        return self._loaded.at[self.half * SLOTS + i % SLOTS]


class _Sync:
    def __init__(self, half: Any, barrier: Any, index: Any, count: int, arrivals: int) -> None:
        self._barrier, self._arrivals = barrier, arrivals
        if MEMORY:
            self._counter = pl.get_global(plgpu.SemaphoreType.REGULAR((count,))).at[index]

    def arrive(self) -> None:
        if MEMORY:
            plgpu.semaphore_signal(self._counter, 1, memory_scope="gpu")
        else:
            plgpu.barrier_arrive(self._barrier)

    def wait(self, times: Any) -> None:
        if MEMORY:
            target = self._arrivals * times
            plgpu.semaphore_wait(self._counter, target, decrement=False, memory_scope="gpu")
        else:
            plgpu.barrier_wait(self._barrier)


def _chunks(source: Any, rows: Any, columns: Any) -> list:
    starts = range(0, columns.size, CHUNK)
    return [source.at[rows, pl.ds(columns.start + i, CHUNK)] for i in starts]


def _load(source: Any, rows: Any, columns: Any) -> Array:
    return plgpu.load(source.at[rows, columns], layout=LAYOUT, optimized=False)


def _starts(reset: Any, rows: Any) -> Array:
    """Whether an episode starts: of each row, for all its units."""
    flags = plgpu.load(reset.at[rows], layout=LAYOUT.reduce(1), optimized=False)
    return jax.lax.broadcast_in_dim(flags, (ROWS, UNITS), (0,)) != 0


def _sigmoid(x: Array) -> Array:
    """1 / y as 1 / sqrt(y)^2: the root is one instruction, a division is many."""
    root = jax.lax.rsqrt(1.0 + jnp.exp2(x * -math.log2(math.e)))
    return root * root


def _gates(inputs: Sequence[Array], recalled: Sequence[Array], bias: Array) -> tuple[Array, ...]:
    """r, z, n and U h + b of the candidate, as `gru.gates` has them."""
    r, z = (_sigmoid(_float(inputs[i]) + _float(recalled[i])) for i in range(2))
    inner = _float(recalled[2]) + bias
    return r, z, 2.0 * _sigmoid(2.0 * (_float(inputs[2]) + r * inner)) - 1.0, inner


def _float(x: Array) -> Array:
    return x.astype(jnp.float32)


def _forward(time: int, *refs: Any) -> None:
    weights_given, bias_given, state, projected, reset = refs[:5]
    last, states, remembered, recalled = refs[5:9]
    block = (
        2 * jax.lax.axis_index("pair") + jax.lax.axis_index("side")
        if MEMORY
        else jax.lax.axis_index("block")
    )
    half = _Half(time, block, refs[9:])
    others = _Sync(
        half, half.exchanged[0], 2 * half.run + half.half, last.shape[0] // BATCH * 2, BLOCKS
    )
    weights = [half.weights.at[i] for i in range(WIDTH // CHUNK)]
    first_row = (half.run * BLOCKS + half.block) * WIDTH
    half.load_weights(
        [(weights_given.at[pl.ds(first_row + i * CHUNK, CHUNK)], x) for i, x in enumerate(weights)]
    )
    bias = half.load_bias(bias_given)

    def remember(h: Array, t: Any) -> None:
        """h before step t, for the other blocks too; none follows the last step."""
        rows = half.rows(jnp.minimum(t, time - 1))
        h = jnp.where(_starts(reset, rows), 0.0, h)

        @pl.when(t < time)
        def write() -> None:
            half.start_writing(h, 0, (remembered, rows, half.own))
            plgpu.wait_smem_to_gmem(0)

        if "others" not in SKIP:
            others.arrive()

    def step(t: Any, h: Array) -> Array:
        rows = half.rows(t)
        with jax.named_scope("inputs"):
            inputs = [_load(projected, half.rows(0) if "inputs" in SKIP else rows, half.gate(gate)) for gate in range(3)]
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        with jax.named_scope("wait"):
            if "others" not in SKIP:
                others.wait(t + 1)
        with jax.named_scope("product"):
            sums = half.product(_chunks(remembered, rows, pl.ds(0, WIDTH)), weights)
        with jax.named_scope("gates"):
            parts = [sums[:, i * UNITS : (i + 1) * UNITS].astype(recalled.dtype) for i in range(3)]
            _, z, n, _ = _gates(inputs, parts, bias)
            h = jnp.where(_starts(reset, rows), 0.0, h)
            h = (1.0 - z) * n + z * h
        with jax.named_scope("remember"):
            remember(h, t + 1)
        if "recalled" in SKIP:
            return h
        with jax.named_scope("write"):
            half.start_writing(parts[0], 0, (recalled, rows, half.gate(0)))
            half.start_writing(parts[1], 1, (recalled, rows, half.gate(1)))
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            half.start_writing(parts[2], 0, (recalled, rows, half.gate(2)))
            half.start_writing(h, 1, (states, rows, half.own))
        return h

    h = _load(state, half.without_time(), half.own)
    remember(h, 0)
    h = jax.lax.fori_loop(0, time, step, h)
    if "others" not in SKIP:
        others.wait(time + 1)  # none may leave while another still tells it something
    last[half.without_time(), half.own] = h
    plgpu.wait_smem_to_gmem(0)


def _backward(time: int, *refs: Any) -> None:
    """The derivatives by U h of all units are three times as much to exchange as the state.

    So a block adds up only those of the blocks of its side, but for the units of its partner too;
    then the partners exchange sums.
    """
    weights_given, bias_given, projected, reset, remembered, recalled = refs[:6]
    wanted_last, wanted, first, by_recalled, by_projected, passed, sums_given = refs[6:13]
    pair, side = jax.lax.axis_index("pair"), jax.lax.axis_index("side")
    half = _Half(time, 2 * pair + side, refs[13:])
    *_, partner = half.exchanged
    same_side = _Sync(
        half,
        half.exchanged[0],
        4 * half.run + 2 * side + half.half,
        first.shape[0] // BATCH * 4,
        BLOCKS // 2,
    )
    bias = half.load_bias(bias_given)
    summed = [
        pl.ds(gate * WIDTH + (2 * p + side) * UNITS + i, CHUNK)
        for gate in range(3)
        for p in range(BLOCKS // 2)
        for i in range(0, UNITS, CHUNK)
    ]
    own, other = (
        pl.ds((half.run * BLOCKS + 2 * pair + s) * UNITS, UNITS) for s in (side, 1 - side)
    )
    half.load_weights(
        [
            (weights_given.at[rows, columns], half.weights.at[i, pl.ds(j * UNITS, UNITS)])
            for i, columns in enumerate(summed)
            for j, rows in enumerate((own, other))
        ]
    )
    weights = [half.weights.at[i].transpose((1, 0)) for i in range(len(summed))]

    def load(t: Any) -> tuple[Array, ...]:
        rows = half.rows(jnp.maximum(t, 0))
        of_gates = [_load(x, rows, half.gate(g)) for x in (projected, recalled) for g in range(3)]
        return *of_gates, _load(remembered, rows, half.own), _load(wanted, rows, half.own)

    def prefetch(t: Any) -> None:
        rows = half.rows(jnp.maximum(t, 0))
        for x in (projected, recalled):
            for g in range(3):
                plgpu.async_prefetch(x.at[rows, half.gate(g)])
        for x in (remembered, wanted):
            plgpu.async_prefetch(x.at[rows, half.own])

    def exchange(sums: Array, t: Any) -> Array:
        """With the partner, in two numbers each whose sum is as good as float32's."""
        mine, theirs = sums[:, :UNITS], sums[:, UNITS:]
        rows, rows_there = (
            pl.ds((((half.run * BLOCKS + 2 * pair + s) * 2 + t % 2) * 2 + half.half) * ROWS, ROWS)
            for s in (side, 1 - side)
        )
        large = theirs.astype(passed.dtype)
        small = theirs - _float(large)
        if DIRECT:
            plgpu.barrier_arrive(partner)
            plgpu.barrier_wait(partner)
            got = half.swap([large, small.astype(large.dtype)], 1 - side)
            pieces = len(got) // 2
            return mine + jnp.concatenate(
                [_float(a) + _float(b) for a, b in zip(got[:pieces], got[pieces:], strict=True)],
                axis=1,
            )
        half.start_writing(large, 0, (passed, rows_there, pl.ds(0, UNITS)))
        half.start_writing(small, 1, (passed, rows_there, pl.ds(UNITS, UNITS)))
        plgpu.wait_smem_to_gmem(0)
        plgpu.barrier_arrive(partner)
        plgpu.barrier_wait(partner)
        got = half.read(passed, rows, pl.ds(0, 2 * UNITS))
        pieces = len(got) // 2
        return mine + jnp.concatenate(
            [_float(a) + _float(b) for a, b in zip(got[:pieces], got[pieces:], strict=True)], axis=1
        )

    def step(i: Any, now: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
        t = time - 1 - i
        rows = half.rows(t)
        later, given, bias_sums = now
        with jax.named_scope("inputs"):
            if not PRELOAD:
                given = load(t)
        with jax.named_scope("gates"):
            r, z, n, inner = _gates(given[:3], given[3:6], bias)
            total = later + _float(given[7])
            by_r, by_z, by_state_n, by_n = slopes(total, given[6], r, z, n, inner)
        with jax.named_scope("write"):
            for gate, x in enumerate((by_r, by_z)):
                columns = half.gate(gate)
                half.start_writing(
                    x, gate, (by_recalled, rows, columns), (by_projected, rows, columns)
                )
            if SUMS:
                bias_sums = bias_sums + half.sums_of_rows({0: 0, 1: 1})
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            half.start_writing(by_state_n, 0, (by_recalled, rows, half.gate(2)))
        with jax.named_scope("tell"):
            plgpu.wait_smem_to_gmem(0)
            same_side.arrive()
        with jax.named_scope("rest"):
            half.start_writing(by_n, 1, (by_projected, rows, half.gate(2)))
            if SUMS:
                bias_sums = bias_sums + half.sums_of_rows({0: 2, 1: 3})
            if PREFETCH:
                prefetch(t - 1)
            given = load(t - 1) if PRELOAD else ()
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        with jax.named_scope("wait"):
            same_side.wait(i + 1)
        with jax.named_scope("product"):
            sums = half.product([by_recalled.at[rows, columns] for columns in summed], weights)
        with jax.named_scope("exchange"):
            through = exchange(sums, t)
        return jnp.where(_starts(reset, rows), 0.0, total * z + through), given, bias_sums

    later = _load(wanted_last, half.without_time(), half.own)
    bias_sums = plgpu.layout_cast(jnp.zeros((ROWS, CHUNK), jnp.float32), LAYOUT)
    later, _, bias_sums = jax.lax.fori_loop(
        0, time, step, (later, load(time - 1) if PRELOAD else (), bias_sums)
    )
    rows = pl.ds(((half.run * BLOCKS + half.block) * 2 + half.half) * ROWS, ROWS)
    sums_given[rows, :] = bias_sums
    first[half.without_time(), half.own] = later
    plgpu.wait_smem_to_gmem(0)
