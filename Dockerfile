# docker build -t jax-lm .                      a CPU
# docker build -t jax-lm --build-arg EXTRA=cuda .   an NVIDIA GPU (run with --gpus all); EXTRA=tpu: a TPU
# docker run --rm -v "$PWD:/work" jax-lm quickstart
FROM python:3.11-slim

ARG EXTRA=cpu

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# The dependencies are a layer of their own: it is made again only when these files change.
WORKDIR /opt/jax-lm
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src/jax_lm/__init__.py src/jax_lm/__init__.py
RUN case "$EXTRA" in cpu) extras="beam,fast" ;; cuda|tpu) extras="beam,fast,$EXTRA" ;; \
    *) echo "EXTRA must be cpu, cuda or tpu, not '$EXTRA'" >&2; exit 1 ;; esac; \
    pip install -c constraints.txt ".[$extras]"

COPY src src
RUN pip install --no-deps --force-reinstall .

RUN useradd --create-home --uid 1000 jaxlm && mkdir /work && chown jaxlm /work
USER jaxlm
WORKDIR /work

ENTRYPOINT ["jax-lm"]
CMD ["--help"]
