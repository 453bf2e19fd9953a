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
PIECES = UNITS // CHUNK
"""Numbers of a row that a product adds up at once, and how many chunks are on their way."""
LAYOUT = plgpu.Layout.WGMMA
EAGER, PREFETCH, SUMS = False, True, True
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
    weights = 3 * WIDTH // 2 // CHUNK, 2 * UNITS, CHUNK
    sums = jax.ShapeDtypeStruct((merged * BLOCKS * 2 * ROWS, CHUNK), jnp.float32)
    shapes = [first, by_gates, by_gates, sums]
    call = _kernel(
        partial(_backward, time),
        shapes,
        merged,
        weights,
        2 * weights[0],
        interpret,
    )
    first, *by_sums, sums = call(
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
        sums = sums.reshape(*runs, BLOCKS, 2, 4, PIECES, -1, CHUNK)[..., 0, :].sum(-4)
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
            plgpu.ClusterBarrier(collective_axes=("side",), num_barriers=2),
        ],
        grid=(runs, BLOCKS // 2),
        grid_names=("run", "pair"),
        cluster=(2,),
        cluster_names=("side",),
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

    def __init__(self, time: int, shared: Any) -> None:
        self.time = time
        axes = "run", "pair", "side", "half"
        self.run, self.pair, self.side, self.half = (jax.lax.axis_index(x) for x in axes)
        self.block = 2 * self.pair + self.side
        self.own = self.gate(0)
        self.weights, self._slots, self._ready, self._loaded, partner = shared
        self.partner = partner.at[self.half]

    def rows(self, t: Any) -> Any:
        """Its rows at a time, of arrays that have all runs and times one below the other."""
        return pl.ds(((self.run * self.time + t) * 2 + self.half) * ROWS, ROWS)

    def without_time(self) -> Any:
        return pl.ds((self.run * 2 + self.half) * ROWS, ROWS)

    def gate(self, gate: int) -> Any:
        """Its columns of a gate."""
        return pl.ds(gate * WIDTH + self.block * UNITS, UNITS)

    def load(self, source: Any, rows: Any, gate: int, piece: int) -> Array:
        """A piece of its columns of a gate."""
        columns = pl.ds(gate * WIDTH + self.block * UNITS + piece * CHUNK, CHUNK)
        return _load(source, rows, columns)

    def weights_at(self, i: Any) -> Any:
        return self.weights.at[i]

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

    def product(self, source: Any, rows: Any, column: Any, weights: Any) -> Array:
        """The sum of products of chunks [ROWS, CHUNK] of `source` with weights."""
        ahead = SLOTS if EAGER else SLOTS - 1
        rounds = self.weights.shape[0] // SLOTS

        def load(i: Any, slot: int) -> None:
            self.start_loading(source.at[rows, pl.ds(column(i), CHUNK)], slot)

        def add_up(sums: Any) -> Array:
            def add(j: Any, last: bool = False) -> None:
                for slot in range(SLOTS):
                    i = j * SLOTS + slot
                    plgpu.barrier_wait(self._barrier(slot))
                    plgpu.wgmma(sums, self._slot(slot), weights(i))
                    plgpu.wgmma_wait(0 if EAGER else 1)  # the slot of this or the last one is free
                    if not last or slot + ahead < SLOTS:
                        load(i + ahead, slot + ahead)

            # A loop, since the compiler would compute all addresses before the first step.
            jax.lax.fori_loop(0, rounds - 1, lambda j, _: add(j), None)
            add(rounds - 1, last=True)
            return sums[...]

        for i in range(ahead):
            load(i, i)
        units = weights(0).shape[1]
        total = pl.run_scoped(add_up, plgpu.ACC((ROWS, units), jnp.float32))
        plgpu.commit_smem()  # each warp has waited for itself: now all have read their slots
        return total

    def start_loading(self, part: Any, i: int) -> None:
        plgpu.copy_gmem_to_smem(part, self._slot(i), self._barrier(i))

    def put(self, piece: Array, slot: int) -> None:
        """Into shared memory, from where `copy` takes it: registers hold small pieces of rows."""
        target = self._slot(slot)
        target[...] = piece.astype(target.dtype)

    def copy(self, buffer: int, target: Any, rows: Any, columns: Any) -> None:
        for slot, part in zip(self._buffer(buffer), _chunks(target, rows, columns), strict=True):
            plgpu.copy_smem_to_gmem(slot, part)

    def start_writing(self, value: Array, buffer: int, target: Any, rows: Any, columns: Any) -> None:
        for i in range(PIECES):
            self.put(value[:, _piece(i)], buffer * PIECES + i)
        plgpu.commit_smem()
        self.copy(buffer, target, rows, columns)

    def sums_of_rows(self, arrays: dict[int, int]) -> Array:
        """Of what the buffers hold: `arrays` says which array (of four) each of them is.

        A product with ones would have each sum 64 times. This one has ones in some rows only, so
        that there is room for all four arrays, one below the other.
        """
        row = plgpu.broadcasted_iota(jnp.int32, (ROWS,), 0, layout=LAYOUT.reduce(1))
        # The barrier: else all those ones would be kept in registers from the first step on.
        row = jax.lax.optimization_barrier(row)
        group = jax.lax.shift_right_logical(row, int(math.log2(ROWS // (4 * PIECES))))

        def add_up(sums: Any) -> Array:
            for buffer, array in arrays.items():
                for i, slot in enumerate(self._buffer(buffer)):
                    ones = (group == array * PIECES + i).astype(jnp.float32)
                    ones = jax.lax.broadcast_in_dim(ones, (ROWS, ROWS), (0,)).astype(slot.dtype)
                    plgpu.wgmma(sums, ones, slot)
                    plgpu.wgmma_wait(0)
            return sums[...]

        return pl.run_scoped(add_up, plgpu.ACC((ROWS, CHUNK), jnp.float32))

    def swap(self, pieces: list[Array]) -> list[Array]:
        """With the partner: each writes into the slots of the other."""
        other = 1 - self.side
        for i, x in enumerate(pieces):
            plgpu.async_store_smem(
                x, self._slot(i), self._barrier(i), cluster_idx=other, cluster_dim="side"
            )
        for i in range(len(pieces)):
            plgpu.barrier_wait(self._barrier(i))
        return [plgpu.load(self._slot(i), layout=LAYOUT) for i in range(len(pieces))]

    def _buffer(self, i: int) -> list:
        return [self._slot(i * PIECES + j) for j in range(PIECES)]

    def _slot(self, i: int) -> Any:
        return self._slots.at[self.half * SLOTS + i % SLOTS]

    def _barrier(self, i: int) -> Any:
        return self._loaded.at[self.half * SLOTS + i % SLOTS]


class _Others:
    """The same halves of other blocks, of which some wait for each other in every step."""

    def __init__(self, index: Any, groups: int, blocks: int) -> None:
        self._counter = pl.get_global(plgpu.SemaphoreType.REGULAR((groups,))).at[index]
        self._blocks = blocks

    def tell(self) -> None:
        plgpu.semaphore_signal(self._counter, memory_scope="gpu")

    def wait(self, times: Any) -> None:
        """Until each has told something that often."""
        plgpu.semaphore_wait(
            self._counter, self._blocks * times, decrement=False, memory_scope="gpu"
        )


def _piece(i: int) -> slice:
    return slice(i * CHUNK, (i + 1) * CHUNK)


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
    half = _Half(time, refs[9:])
    others = _Others(2 * half.run + half.half, 2 * last.shape[0] // BATCH, BLOCKS)
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
            half.start_writing(h, 0, remembered, rows, half.own)
            plgpu.wait_smem_to_gmem(0)
            others.tell()

    def step(t: Any, h: Array) -> Array:
        rows = half.rows(t)
        with jax.named_scope("inputs"):
            inputs = [
                [half.load(projected, rows, gate, i) for gate in range(3)] for i in range(PIECES)
            ]
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        with jax.named_scope("wait"):
            others.wait(t + 1)
        with jax.named_scope("product"):
            sums = half.product(remembered, rows, lambda i: i * CHUNK, half.weights_at)
        with jax.named_scope("gates"):
            h = jnp.where(_starts(reset, rows), 0.0, h)
            rounded = sums.astype(recalled.dtype)
            after = []
            for i in range(PIECES):
                first = i * CHUNK
                parts = [rounded[:, g * UNITS + first : g * UNITS + first + CHUNK] for g in range(3)]
                _, z, n, _ = _gates(inputs[i], parts, bias[:, _piece(i)])
                after.append((1.0 - z) * n + z * h[:, _piece(i)])
            h = jnp.concatenate(after, axis=1)
        with jax.named_scope("remember"):
            remember(h, t + 1)
        with jax.named_scope("write"):
            parts = [rounded[:, g * UNITS : (g + 1) * UNITS] for g in range(3)]
            half.start_writing(parts[0], 0, recalled, rows, half.gate(0))
            half.start_writing(parts[1], 1, recalled, rows, half.gate(1))
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            half.start_writing(parts[2], 0, recalled, rows, half.gate(2))
            half.start_writing(h, 1, states, rows, half.own)
        return h

    h = _load(state, half.without_time(), half.own)
    remember(h, 0)
    h = jax.lax.fori_loop(0, time, step, h)
    last[half.without_time(), half.own] = h
    plgpu.wait_smem_to_gmem(0)


def _backward(time: int, *refs: Any) -> None:
    """The derivatives by U h of all units are three times as much to exchange as the state.

    So a block adds up only those of the blocks of its side, but for the units of its partner too;
    then the partners exchange sums.
    """
    weights_given, bias_given, projected, reset, remembered, recalled = refs[:6]
    wanted_last, wanted, first, by_recalled, by_projected, sums_of_biases = refs[6:12]
    half = _Half(time, refs[12:])
    runs = first.shape[0] // BATCH
    same_side = _Others(4 * half.run + 2 * half.side + half.half, 4 * runs, BLOCKS // 2)
    bias = half.load_bias(bias_given)

    def column(i: Any) -> Any:
        """Of the chunks that the block adds up: those of all gates of its side."""
        per_pair = 2 * UNITS
        return i // PIECES * per_pair + half.side * UNITS + i % PIECES * CHUNK

    own, other = (
        pl.ds((half.run * BLOCKS + 2 * half.pair + side) * UNITS, UNITS)
        for side in (half.side, 1 - half.side)
    )
    half.load_weights(
        [
            (
                weights_given.at[rows, pl.ds(column(i), CHUNK)],
                half.weights.at[i, pl.ds(j * UNITS, UNITS)],
            )
            for i in range(half.weights.shape[0])
            for j, rows in enumerate((own, other))
        ]
    )

    def weights(i: Any) -> Any:
        return half.weights.at[i].transpose((1, 0))

    def exchange(sums: Array) -> list[Array]:
        """With the partner, in two numbers each whose sum is as good as float32's."""
        theirs = [sums[:, UNITS + i : UNITS + i + CHUNK] for i in range(0, UNITS, CHUNK)]
        large = [x.astype(jnp.bfloat16) for x in theirs]
        small = [(x - _float(y)).astype(jnp.bfloat16) for x, y in zip(theirs, large, strict=True)]
        plgpu.barrier_arrive(half.partner)
        plgpu.barrier_wait(half.partner)  # its slots are free
        got = half.swap([*large, *small])
        return [sums[:, _piece(i)] + _float(got[i]) + _float(got[PIECES + i]) for i in range(PIECES)]

    def prefetch(t: Any) -> None:
        """Into the cache."""
        rows = half.rows(jnp.maximum(t, 0))
        for x in (projected, recalled):
            for gate in range(3):
                plgpu.async_prefetch(x.at[rows, half.gate(gate)])
        for x in (remembered, wanted):
            plgpu.async_prefetch(x.at[rows, half.own])

    def step(i: Any, now: tuple[Array, Array]) -> tuple[Array, Array]:
        t = time - 1 - i
        rows = half.rows(t)
        later, bias_sums = now
        kept, by_states, by_inputs = [], [], []
        with jax.named_scope("gates"):
            for p in range(PIECES):
                inputs, states = (
                    [half.load(x, rows, gate, p) for gate in range(3)] for x in (projected, recalled)
                )
                before, more = (half.load(x, rows, 0, p) for x in (remembered, wanted))
                r, z, n, inner = _gates(inputs, states, bias[:, _piece(p)])
                total = later[:, _piece(p)] + _float(more)
                by_r, by_z, by_state_n, by_n = slopes(total, before, r, z, n, inner)
                half.put(by_r, p)
                half.put(by_z, PIECES + p)
                kept.append(total * z)
                by_states.append(by_state_n.astype(jnp.bfloat16))
                by_inputs.append(by_n.astype(jnp.bfloat16))
                plgpu.commit_smem()  # also keeps the compiler from loading the next piece yet
        with jax.named_scope("write"):
            for gate in range(2):
                half.copy(gate, by_recalled, rows, half.gate(gate))
                half.copy(gate, by_projected, rows, half.gate(gate))
            if SUMS:
                bias_sums = bias_sums + half.sums_of_rows({0: 0, 1: 1})
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            for p in range(PIECES):
                half.put(by_states[p], p)
                half.put(by_inputs[p], PIECES + p)
            plgpu.commit_smem()
            half.copy(0, by_recalled, rows, half.gate(2))
        with jax.named_scope("tell"):
            plgpu.wait_smem_to_gmem(0)
            same_side.tell()
        with jax.named_scope("rest"):
            half.copy(1, by_projected, rows, half.gate(2))
            if SUMS:
                bias_sums = bias_sums + half.sums_of_rows({0: 2, 1: 3})
            if PREFETCH:
                prefetch(t - 1)
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        with jax.named_scope("wait"):
            same_side.wait(i + 1)
        with jax.named_scope("product"):
            sums = half.product(by_recalled, rows, column, weights)
        with jax.named_scope("exchange"):
            through = exchange(sums)
            earlier = jnp.concatenate([a + b for a, b in zip(kept, through, strict=True)], axis=1)
        return jnp.where(_starts(reset, rows), 0.0, earlier), bias_sums

    later = _load(wanted_last, half.without_time(), half.own)
    nothing = plgpu.layout_cast(jnp.zeros((ROWS, CHUNK), jnp.float32), LAYOUT)
    later, bias_sums = jax.lax.fori_loop(0, time, step, (later, nothing))
    first[half.without_time(), half.own] = later
    sums_of_biases[pl.ds(((half.run * BLOCKS + half.block) * 2 + half.half) * ROWS, ROWS), :] = bias_sums
    plgpu.wait_smem_to_gmem(0)
