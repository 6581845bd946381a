"""Where the ordered samples are: named columns in memory, on disk, or in another array library."""

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk.stored import StoredBuffer

__all__ = ["Buffer", "StoredBuffer"]
