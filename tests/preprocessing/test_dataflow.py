"""A Dataflow job, built and staged without any network but a bucket on this machine."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import TinyFeatures

pytestmark = pytest.mark.slow

SUBMIT_NOTHING = """
import sys
from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient
class Built(Exception): pass
def submit(self, job): raise Built("not submitted")
DataflowApplicationClient.submit_job_description = submit
from jax_lm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_job_and_what_it_stages_are_built(
    tiny_features: TinyFeatures, google_storage: str, tmp_path: Path, monkeypatch
) -> None:
    pytest.importorskip(
        "google.cloud.dataflow_v1beta3", reason="needs the extra dataflow: apache-beam[gcp]"
    )
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_storage)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    bucket = json.dumps({"name": "jobs"}).encode()
    create = urllib.request.Request(
        f"{google_storage}/storage/v1/b?project=my-project", bucket,
        {"content-type": "application/json"},
    )  # fmt: skip
    urllib.request.urlopen(create).read()
    wheel = tmp_path / "jax_lm-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"stands in for the package that workers install")
    job = tmp_path / "job.json"
    options = (
        f"--dataflow_job_file={job} --project=my-project --region=europe-west4 --no_auth "
        f"--temp_location=gs://jobs/tmp --staging_location=gs://jobs/staging "
        f"--extra_package={wheel}"
    )
    command = ["preprocess", tiny_features.held_out_text, "--tokenizer", tiny_features.tokenizer]
    command += ["--output", tmp_path / "set", "--max-sequence-length", "16"]
    command += ["--runner", "DataflowRunner", f"--beam-options={options}"]
    script = [sys.executable, "-c", SUBMIT_NOTHING, *map(str, command)]
    run = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert "not submitted" in run.stderr, run.stderr
    described = json.loads(job.read_text())
    packages = described["environment"]["workerPools"][0]["packages"]
    staged = {package["name"] for package in packages}
    assert wheel.name in staged
    listing = f"{google_storage}/storage/v1/b/jobs/o?prefix=staging/"
    found = json.loads(urllib.request.urlopen(listing).read())["items"]
    names = {item["name"].rsplit("/", 1)[1] for item in found}
    assert staged | {"pipeline.pb"} <= names
