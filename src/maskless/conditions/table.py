"""What is compared: the paper's conditions C1 to C4, its ablation, a control, ours, and the rivals.

`docs/training.md` says what each is, `docs/methods.md` which one is for whom.
"""

from maskless.conditions.condition import Condition

CONDITIONS: dict[str, Condition] = {
    "masked": Condition(masked=True),  # C1
    "unmasked": Condition(masked=False),  # C2
    "masked-focal": Condition(masked=True, strength=10.0),  # C3
    "masked-kl": Condition(masked=True, strength=10.0, kl_share=1.0),  # C4
    "unmasked-kl": Condition(masked=False, strength=10.0, kl_share=1.0),  # the paper's ablation
    "masked-bce": Condition(masked=True, strength=10.0, gamma=0.0),  # control: cross-entropy
    "masked-mix": Condition(masked=True, strength=10.0, kl_share=0.5),  # ours
    "masked-tv": Condition(masked=True, strength=10.0, kl_share=1.0, acting=True),  # ours
    "masked-loop": Condition(  # ours; the idea, offline: Wu et al., 2024
        masked=True, strength=10.0, kl_share=0.5, predicted_share=0.25
    ),
    "masked-clone": Condition(masked=True, clone=1.0),  # ours: acts without any mask
    "safe-loop": Condition(  # ours: the share grows as the predicted masks become right
        masked=True,
        strength=10.0,
        kl_share=0.5,
        predicted_share=0.5,
        tolerance=0.1,
        remembers=True,
    ),
    "unmasked-silent": Condition(masked=False, silent=True),  # control: is it suppression?
    "discovered": Condition(  # ours: no oracle, not even in training
        masked=False,
        predicted_share=1.0,
        explore=0.02,
        remembers=True,
        silent=True,
        strength=10.0,
        gamma=0.0,
        threshold=0.1,
        tried=True,
    ),
    # Rivals: masks when training, in each its authors' way.
    "penalty": Condition(masked=False, penalty=0.1),  # Huang and Ontanon, 2020
    "naive": Condition(masked=True, unmasked_ratio=True),  # Hou et al., 2023: CO-IAM
    "off-policy": Condition(masked=True, unmasked_ratio=True, importance=True),  # Off-PIAM
    "masked-distil": Condition(masked=True, distil=0.1),  # KL(masked || unmasked) = -log Z
    "zhao21": Condition(  # Zhao et al., 2021
        masked=True, soft_mask=-14.0, strength=5.0, squared=True, invalid_mass=2.0
    ),
    "replace": Condition(masked=False, replaces=True),  # a safeguard in the environment
    "eliminate": Condition(masked=True, ridge=1.0, confidence=1.0),  # Zahavy et al., 2018
    "dagger": Condition(masked=True, clone=1.0, clone_share=0.5),  # Ross et al., 2011
}
DEFAULT_CONDITIONS = ("masked", "unmasked", "masked-kl")
"""What is trained in the paper's worlds unless somebody asks for others."""
OWN_CONDITIONS = ("masked",)
"""The same in a world of one's own: a policy to be deployed."""
