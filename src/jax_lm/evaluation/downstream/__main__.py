"""The harness's command line, with our models in it."""

from jax_lm.evaluation.downstream.adapter import adapter_class, harness_module


def main() -> None:
    """Run it; its errors and exit codes are its own."""
    adapter_class()
    harness_module("__main__").cli_evaluate()


if __name__ == "__main__":
    main()
