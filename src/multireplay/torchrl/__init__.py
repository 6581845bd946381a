"""Samplers for TorchRL's replay buffers that replay the stored rows coarse to fine in time.

`MultiscaleSampler` gives the epochs of the paper, `DyadicSampler` every stored row once a pass. They need
``pip install 'multireplay[torch]'``; nothing else in this package imports torch.
"""

try:
    import tensordict  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: F401
    import torchrl  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: F401
except ImportError as error:
    raise ImportError(
        f"multireplay.torchrl needs torch, torchrl and tensordict ({error}): pip install 'multireplay[torch]'"
    ) from error

from multireplay.torchrl.samplers import DyadicSampler, MultiscaleSampler

__all__ = ["DyadicSampler", "MultiscaleSampler"]
