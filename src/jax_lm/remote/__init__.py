"""Directories on object stores (``gs://``, ``s3://`` and their like): read, written, kept here.

An object store renames nothing, so a directory there is complete once the file is there that is
written last: a feature set's manifest, a checkpoint's checksums, a model's ``config.json``.
"""
