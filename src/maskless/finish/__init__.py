"""After PPO: the policy is frozen, and a student beside it learns, to the end, what is possible.

    finished = finish(env, net, [params], frames=100_000, seeds=[0])
    finished[0].params                       # of `Deployable.of(net, env.num_actions)`

PPO leaves a classifier no more than one layer and the states of its rollouts, for as long as it
runs itself. But labels are free, so this is plain supervised learning: a body of its own,
normalised observations, a memory of states, many passes; and the states are those to which the
student's own masks and its clone lead (the idea of DAgger, Ross et al., 2011; for masks Wu et al.,
2024). It ends when fresh states show no gain, or after `frames`.
"""

from maskless.finish.phase import Finished, Round, finish
from maskless.finish.runs import finish_runs, save_finished

__all__ = ["Finished", "Round", "finish", "finish_runs", "save_finished"]
