"""Multiscale experience replay and dyadic order on a TorchRL replay buffer."""

from __future__ import annotations

from typing import Literal

from multireplay.replay import Dyadic, Multiscale
from multireplay.torchrl.base import PlanSampler


class MultiscaleSampler(PlanSampler):
    """Batches in the order of the paper's Algorithm 1, for any TorchRL ``ReplayBuffer``.

    A pass over the B stored rows has epochs k = 1, …, K. Epoch k gives 2^k rows that are B/2^k apart in time, from
    the oldest to the newest. A learner following the paper restarts at every epoch and keeps the answer of each.

    Every batch comes with three entries, one value a row, in ``info`` and in the sample of a
    ``TensorDictReplayBuffer``: ``epoch`` is k, ``gap`` is B/2^k, and ``new_epoch`` is True on the first row of an
    epoch. No batch straddles two epochs: the last one of an epoch is shorter where the batch size does not divide 2^k,
    and an epoch with fewer rows than the batch size is one batch.

    After the last epoch ``ran_out`` is True, so that ``for batch in buffer`` makes one pass; the next batch begins the
    next pass. Rows may be added at any time. The plan of the running epoch is fixed when it begins: it goes on over
    the slots it began with, new rows join in the next epoch, and a slot that is overwritten meanwhile gives its new
    row.

    Time order is the order of writing, also after a full storage has begun to overwrite its oldest rows; it needs the
    default round-robin writer. ``buffer.dumps`` and ``buffer.loads``, as well as ``state_dict``, resume exactly, within
    an epoch too. In a storage with more than one dimension the one the buffer is extended along (``dim_extend``) is
    time, and each time gives all its rows, one after the other. ``prefetch=1`` keeps the order; with more threads
    TorchRL may swap batches.

    Parameters
    ----------
    epochs : int, optional
        Number of epochs K of a pass, at most ⌊log2 B⌋, which is the default.
    phases : int or "all"
        How many of the ⌊B/2^k⌋ offsets of the gap an epoch goes through, one after the other; 1 is the paper's. With
        "all" an epoch gives every row once if 2^k divides B.

    Examples
    --------
    >>> import torch, multireplay as mr
    >>> from torchrl.data import LazyTensorStorage, ReplayBuffer
    >>> buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=mr.torchrl.MultiscaleSampler(), batch_size=4)
    >>> _ = buffer.extend(torch.arange(8))
    >>> _ = buffer.extend(torch.tensor([8, 9]))  # overwrites rows 0 and 1
    >>> for batch in buffer:
    ...     print(batch.tolist())
    [5, 9]
    [3, 5, 7, 9]
    [2, 3, 4, 5]
    [6, 7, 8, 9]
    >>> batch, info = buffer.sample(return_info=True)
    >>> info["epoch"].tolist(), info["gap"].tolist(), info["new_epoch"].tolist()
    ([1, 1], [4.0, 4.0], [True, False])
    """

    def __init__(self, epochs: int | None = None, phases: int | Literal["all"] = 1) -> None:
        super().__init__(Multiscale(epochs=epochs, phases=phases, sweep=True))


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
