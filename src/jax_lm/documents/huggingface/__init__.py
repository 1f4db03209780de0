"""Data sets of the ``datasets`` library as sources of documents."""
