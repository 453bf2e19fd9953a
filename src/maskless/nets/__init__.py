"""Networks behind one interface: MLP, GRU, and the hybrid of Transformer-XL and S5."""

from typing import Any

import flax.linen as nn

from maskless.errors import MasklessError, UnknownNameError
from maskless.nets.base import PRECISIONS, AnyNetwork, Carry, Network, apply, is_recurrent
from maskless.nets.contract import check_network
from maskless.nets.encoders import Encoder, ModuleEncoder
from maskless.nets.glyphs import GlyphEncoder
from maskless.nets.gru import GRU
from maskless.nets.heads import Heads, complete
from maskless.nets.hybrid import Hybrid
from maskless.nets.mlp import MLP
from maskless.nets.rnd import RandomNetworkDistillation

NETS: dict[str, type[Network]] = {"mlp": MLP, "gru": GRU, "hybrid": Hybrid}
ENCODERS: dict[str, Encoder] = {"flat": Encoder(), "glyphs": GlyphEncoder()}
"""Those that a policy artifact can name."""


def make_net(
    name: str,
    *,
    num_actions: int,
    encoder: Encoder | str = "flat",
    width: int | None = None,
    precision: str = "float32",
) -> Network:
    """The network of this name: "mlp", "gru" or "hybrid".

    `encoder`: the environment's, or its name in an artifact. `width`: of its layers; None is the
    paper's (512, 512 and 256). `precision`: what it computes in, "float32" or "bfloat16". The
    arguments are plain values: keep them, and the network can be built again.
    """
    if name not in NETS:
        raise UnknownNameError("network", name, NETS)
    if isinstance(encoder, str) and encoder not in ENCODERS:
        raise UnknownNameError("encoder", encoder, ENCODERS)
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    encoder = ENCODERS[encoder] if isinstance(encoder, str) else encoder
    net = NETS[name]
    width = net.width if width is None else width
    for what, number in (("num_actions", num_actions), ("width", width)):
        if number < 1:
            raise MasklessError(f"{what} must be at least 1, not {number}.")
    if width % net.width_unit:
        raise MasklessError(
            f"The width of {name} must be a multiple of {net.width_unit}, not {width}."
        )
    return net(num_actions=num_actions, encoder=encoder, width=width, precision=precision)


def as_network(
    net: Any,
    *,
    num_actions: int,
    encoder: Encoder | nn.Module | str = "flat",
    width: int | None = None,
    precision: str = "float32",
) -> Any:
    """The network that `net` stands for.

    `net`: a name of `make_net`; a Flax module that keeps the network contract (nets/base.py), which
    is used as it is; or any other Flax module, observation [time, batch, ...] -> [time, batch, n],
    which becomes the encoder of an MLP. `encoder`: the environment's, or a Flax module like that.
    """
    if isinstance(net, nn.Module):
        if hasattr(net, "initial_carry"):
            return net
        net, encoder = "mlp", net
    if isinstance(encoder, nn.Module):
        encoder = ModuleEncoder(encoder)
    if not isinstance(net, str):
        raise MasklessError(
            f"A network is a name ({', '.join(NETS)}) or an instance of a Flax module, not {net!r}."
        )
    return make_net(net, num_actions=num_actions, encoder=encoder, width=width, precision=precision)


__all__ = [
    "GRU",
    "MLP",
    "NETS",
    "PRECISIONS",
    "AnyNetwork",
    "Carry",
    "Encoder",
    "Heads",
    "Hybrid",
    "ModuleEncoder",
    "Network",
    "RandomNetworkDistillation",
    "apply",
    "as_network",
    "check_network",
    "complete",
    "is_recurrent",
    "make_net",
]
