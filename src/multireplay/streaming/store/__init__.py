"""The folder of a stream: a journal of rows, snapshots of what was learnt from them, one writer, any reader."""
