"""Dyadic order on a TorchRL replay buffer."""

from __future__ import annotations

from multireplay.replay import Dyadic
from multireplay.torchrl.base import PlanSampler


class DyadicSampler(PlanSampler):
    """Every stored row once a pass, coarse to fine in time, for any TorchRL ``ReplayBuffer``.

    The first 2^k rows of a pass are those of `MultiscaleSampler`'s epoch k, so that rows close in the pass are far
    apart in time. It takes the place of a ``SamplerWithoutReplacement`` and needs no random numbers. ``new_epoch`` is
    True on the first row of a pass. All else is as with `MultiscaleSampler`: the order of writing is time, a pass is
    over what was stored when it began, its last batch may be shorter, and a saved buffer resumes exactly.

    Examples
    --------
    >>> import torch, multireplay as mr
    >>> from torchrl.data import LazyTensorStorage, ReplayBuffer
    >>> buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=mr.torchrl.DyadicSampler(), batch_size=3)
    >>> _ = buffer.extend(torch.arange(1, 9))
    >>> [batch.tolist() for batch in buffer]
    [[8, 4, 2], [6, 1, 5], [3, 7]]
    """

    def __init__(self) -> None:
        super().__init__(Dyadic())
