"""Acting with NumPy and safetensors: nothing of JAX is imported, and a decision takes microseconds.

    from maskless import runtime

    policy = runtime.load("runs/staircase-gru-1/masked-kl/seed-0")
    carry = policy.initial_carry()
    action, carry, info = policy.act(obs, carry, greedy=True)     # under the predicted mask

It answers as `maskless.load` does: actions and masks are equal, probabilities to 1e-5. MLP and GRU,
observations of numbers and of glyphs; the hybrid and networks of your own act in JAX or as ONNX.
"""

from maskless.runtime.acting import ActingCarry, Policy, load
from maskless.runtime.deciding import Info

__all__ = ["ActingCarry", "Info", "Policy", "load"]
