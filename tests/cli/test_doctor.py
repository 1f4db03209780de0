import subprocess
import sys

import pytest

from jax_lm.cli.main import main

OPTIONAL_MODULES = (
    "apache_beam", "datasets", "fastokens", "gcsfs", "gigatoken", "orjson", "pymongo", "s3fs",
    "sentencepiece", "sentencex", "tensorboard", "torch", "transformers", "wandb",
    "starlette", "uvicorn", "lm_eval",
)  # fmt: skip


def test_says_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for title in ("This machine", "Packages", "Devices", "Kernels", "Cache", "Optional parts"):
        assert f"{title}:\n" in shown
    assert "cpu (cpu)" in shown
    assert "attention          XLA" in shown


def test_works_with_every_extra_absent() -> None:
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in OPTIONAL_MODULES)
    code = f"""
import sys
from importlib import metadata
{blocked}
installed = metadata.version
def version(name):
    if name.replace("-", "_") in {(*OPTIONAL_MODULES, "libtpu", "jax_cuda13_plugin")!r}:
        raise metadata.PackageNotFoundError(name)
    return installed(name)
metadata.version = version
from jax_lm.cli.main import main
sys.exit(main(["doctor"]))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    optional = done.stdout.split("Optional parts:\n")[1]
    assert optional.count("missing ") == len(optional.strip().splitlines())
    assert "pip install 'jax-lm[beam]'" in optional


def test_no_device_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import jax

    def fail() -> list[object]:
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr(jax, "devices", fail)
    assert main(["doctor"]) == 1
    assert "JAX finds no device to run on (Unable to initialize" in capsys.readouterr().err
