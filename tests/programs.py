"""Programs and players for tests, without the folder, the log and the display of a training."""

import jax
import numpy as np

from maskless.evaluation.episodes import mask_source
from maskless.training.program import Program
from maskless.training.request import request_again


def program_of(config, env=None, chunk=1, **options):
    """The program of a configuration; `env`: in place of the one that it names."""
    return Program(request_again(config, env=env), chunk=chunk, **options)


def play_episodes(player, params, masks, *, seed=0, episodes=1, threshold=0.5):
    """The record of complete episodes under one kind of masks, or under a `MaskSource`.
    [envs, episodes]"""
    play = player.begin(seed, episodes)
    if isinstance(masks, str):
        masks = mask_source(masks, play.actor.now.mask.shape[-1])
    while not np.all(play.record.finished):
        play, _ = player.advance(params, play, masks, threshold)
    return jax.device_get(play.record)
