"""Buffers on disk: opening files of several kinds, streaming their rows within a memory budget, and saving.

`Buffer.open` and `Buffer.save` are the door. A kind of file is a `Source` of stored columns (`npy`, `zipped`, `folder`,
`parquet`, `whole`); a `layout` says which of them make up the columns a problem reads; `stream` hands out blocks of
rows, read ahead by a thread; a `StoredBuffer` is all of that in one object.
"""

from multireplay.buffer.disk.stored import StoredBuffer

__all__ = ["StoredBuffer"]
