from jax_lm.serving.metrics import Metrics


def test_the_text_format() -> None:
    metrics = Metrics()
    metrics.requests.add("/v1/models", "GET", "200")
    metrics.requests.add("/v1/models", "GET", "200")
    metrics.requests.add('a"b\\c\n', "GET", "404")
    metrics.tokens.add("prompt", by=7)
    for seconds in (0.01, 0.3, 100.0):
        metrics.first_token.observe(seconds)
    metrics.watch("jax_lm_slots", "Most texts.", lambda: 4)
    page = metrics.page()
    assert page.endswith("\n")
    lines = page.splitlines()
    for line in (
        "# TYPE jax_lm_requests_total counter",
        'jax_lm_requests_total{route="/v1/models",method="GET",status="200"} 2',
        'jax_lm_requests_total{route="a\\"b\\\\c\\n",method="GET",status="404"} 1',
        'jax_lm_tokens_total{kind="prompt"} 7',
        'jax_lm_time_to_first_token_seconds_bucket{le="0.01"} 1',
        'jax_lm_time_to_first_token_seconds_bucket{le="0.25"} 1',
        'jax_lm_time_to_first_token_seconds_bucket{le="0.5"} 2',
        'jax_lm_time_to_first_token_seconds_bucket{le="60.0"} 2',
        'jax_lm_time_to_first_token_seconds_bucket{le="+Inf"} 3',
        "jax_lm_time_to_first_token_seconds_sum 100.310000",
        "jax_lm_time_to_first_token_seconds_count 3",
        "# TYPE jax_lm_slots gauge",
        "jax_lm_slots 4",
    ):
        assert line in lines
