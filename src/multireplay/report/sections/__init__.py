"""The sections of a page on a result, one file each."""
