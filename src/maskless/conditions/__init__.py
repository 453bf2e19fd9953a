"""What is compared, as data. A run is named by its condition and, after a colon, by the numbers in
which it differs, those of the condition or of PPO: `masked-kl:strength=20,learning_rate=0.001`.
All of them are arrays inside the compiled program, so that conditions times numbers times seeds
train together.
"""

from maskless.conditions.condition import Condition, stack
from maskless.conditions.names import condition, grid, identity, name_of, numbers, prudence_of
from maskless.conditions.table import CONDITIONS, DEFAULT_CONDITIONS, OWN_CONDITIONS

__all__ = [
    "CONDITIONS",
    "DEFAULT_CONDITIONS",
    "OWN_CONDITIONS",
    "Condition",
    "condition",
    "grid",
    "identity",
    "name_of",
    "numbers",
    "prudence_of",
    "stack",
]
