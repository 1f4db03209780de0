"""Other people's benchmarks, through EleutherAI's lm-evaluation-harness.

``python -m jax_lm.evaluation.downstream run --model jax-lm --model_args pretrained=RUN ...`` is the
harness's own command line, with our models in it.
"""
