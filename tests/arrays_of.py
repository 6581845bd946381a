"""NumPy arrays as arrays of every library that the tests cross; another device stands for a GPU."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest


def torch_array(values):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch.as_tensor(np.array(values))


def strict_array(values):
    return array_api_strict.asarray(np.array(values))


def device_array(values):
    return array_api_strict.asarray(np.array(values), device=array_api_strict.Device("device1"))


LIBRARIES = {"numpy": np.array, "torch": torch_array, "device": device_array}
EVERY = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
