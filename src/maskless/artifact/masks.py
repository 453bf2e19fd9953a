"""Which masks a policy can act under, and what is asked of it: the arguments of `act`, checked."""

from typing import Any

import numpy as np

from maskless.errors import MasklessError, UnknownNameError, require

MASKS = ("predicted", "clone", "none")
NO_CLASSIFIER = (
    "This policy was trained without a classifier, so it predicts no masks: act with masks='none'"
    " or a mask of yours, or teach it with `maskless finish`."
)
NO_CLONE = (
    "This policy has no cloned head, which acts without masks: train one (`masked-clone`, or"
    " `maskless finish`), or act with masks='predicted', 'none' or a mask of yours."
)


def check_kind(masks: str, *, classifier: bool, clone: bool) -> None:
    """Refuses a kind of masks that there is not, or for which nothing was trained."""
    if masks not in MASKS:
        raise UnknownNameError("kind of masks", masks, MASKS)
    require(masks != "predicted" or classifier, NO_CLASSIFIER)
    require(masks != "clone" or clone, NO_CLONE)


def check_mask(mask: Any, shape: tuple[int, ...], *, traced: bool = False) -> None:
    """Refuses what is no mask of this shape. `traced`: its numbers are not known yet."""
    numbers = mask.dtype == bool or np.issubdtype(mask.dtype, np.integer)
    if not numbers or mask.shape != shape:
        raise MasklessError(
            f"A mask must be of bool{list(shape)} (True = valid), or one of"
            f" {', '.join(map(repr, MASKS))}; got {mask.dtype}{list(mask.shape)}."
        )
    if traced:
        return
    require(
        bool(np.isin(mask, (0, 1)).all()),
        "A mask must be of True and False, or of 1 (valid) and 0; yours holds"
        f" {mask.min()} to {mask.max()}.",
    )
    possible = bool(mask.any(-1).all())
    require(possible, "A mask of yours allows no action: at least one must be valid.")


def check_reset(reset: Any, batch: int, batched: bool) -> None:
    """Refuses what does not say, for each observation, whether an episode starts."""
    if reset.dtype != bool or reset.shape not in ((batch,), () if not batched else (batch,)):
        raise MasklessError(
            f"reset must be bool[{batch}], True where an episode starts; got"
            f" {reset.dtype}{list(reset.shape)}."
        )
