"""Runs the command line as ``python -m jax_lm``."""

import sys

from jax_lm.cli.main import main

sys.exit(main())
