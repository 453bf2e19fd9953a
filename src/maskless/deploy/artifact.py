"""The policy artifact: a folder with policy.json and weights.safetensors, and no code in it."""

import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from flax.traverse_util import flatten_dict

from maskless.envs.base import Environment
from maskless.nets import Network
from maskless.report.files import output_folder, provenance, write_json

FORMAT = 1


def save_policy(
    folder: Path,
    net: Network,
    params: Any,
    env: Environment,
    *,
    threshold: float = 0.5,
    classifier: bool = True,
) -> Path:
    """Writes an artifact. `classifier`: whether the validity head was trained."""
    output_folder(folder)
    flat = flatten_dict(params["params"], sep="/")
    weights = safetensors.numpy.save({name: np.asarray(x) for name, x in flat.items()})
    (folder / "weights.safetensors").write_bytes(weights)
    observation, _ = jax.eval_shape(env.reset, jax.random.key(0))
    about = {
        "format": FORMAT,
        "net": {
            "name": type(net).__name__.lower(),
            "num_actions": net.num_actions,
            "encoder": net.encoder,
            "width": net.width,
        },
        "env": env.id,
        "action_names": list(env.action_names),
        "observation": [
            {
                "name": jax.tree_util.keystr(path, simple=True, separator="."),
                "shape": list(leaf.shape),
                "dtype": str(leaf.dtype),
            }
            for path, leaf in jax.tree.leaves_with_path(observation)
        ],
        "threshold": threshold,
        "classifier": classifier,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        **provenance(),
    }
    write_json(folder / "policy.json", about)
    return folder
