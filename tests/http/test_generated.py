"""A client that openapi-generator makes of api/openapi.yaml does what its users want of it, unmodified."""

import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import data

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "api/openapi.yaml"
GENERATOR = pathlib.Path(sys.executable).with_name("openapi-generator-cli")
DEADLINE_S = 60

pytestmark = pytest.mark.skipif(not GENERATOR.exists(), reason="openapi-generator is not installed beside this Python")


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The package that the generator makes."""
    folder = tmp_path_factory.mktemp("generated")
    done = subprocess.run([GENERATOR, "generate", "-i", CONTRACT, "-g", "python", "--package-name", "krrd_client",
                           "--global-property", "apis,models,supportingFiles,apiDocs=false,modelDocs=false,"
                           "apiTests=false,modelTests=false", "-o", folder],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    sys.path.insert(0, str(folder))
    yield __import__("krrd_client")
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def client(generated, shared_daemon):
    with generated.ApiClient(generated.Configuration(host=shared_daemon.base)) as found:
        yield found


def wait_for(jobs, job):
    deadline = time.monotonic() + DEADLINE_S
    while job.status.value not in ("succeeded", "failed", "cancelled"):
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
        job = jobs.get_job(job.id)
    return job


@pytest.fixture(scope="module")
def trained(generated, client):
    """A data set, and the job that made version 1 of "generated"."""
    X, y = data.regression(200, seed=3)
    dataset = generated.DatasetsApi(client).create_dataset(name="generated", target=["y"], body=data.csv(X, y))
    jobs = generated.JobsApi(client)
    spec = {"model": "generated", "dataset": dataset.id, "kernel": {"name": "gaussian", "bandwidth": 1.5},
            "solver": {"name": "pcg", "preconditioner": {"name": "rpcholesky", "rank": 50}},
            "regularization": 1e-6, "test": {"fraction": 0.25}, "stop": {"tolerance": 1e-8}}
    return dataset, wait_for(jobs, jobs.create_job(generated.JobSpec.from_dict(spec)))


def test_job(generated, client, trained):
    dataset, job = trained
    assert job.status.value == "succeeded" and job.result.relative_residual < 1e-8
    jobs = generated.JobsApi(client)
    assert job.id in [listed.id for listed in jobs.list_jobs().data]
    assert dataset.id in [listed.id for listed in generated.DatasetsApi(client).list_datasets().data]
    assert jobs.list_events(job.id).data[-1].type == "status"
    assert jobs.list_test_predictions(job.id).test_rows == 50


def test_job_that_leaves_all_open(generated, client, trained):
    jobs = generated.JobsApi(client)
    job = wait_for(jobs, jobs.create_job(generated.JobSpec(model="generated-open", dataset=trained[0].id)))
    assert job.status.value == "succeeded", job


def test_predictions(generated, client, trained, shared_daemon):
    X, _ = data.regression(5, seed=4)
    request = generated.PredictRequest.from_dict({"instances": X.tolist()})
    found = generated.PredictionsApi(client).predict("generated", request)
    wanted = shared_daemon.api.predict("generated", X).json()["predictions"]
    assert [p.actual_instance for p in found.predictions] == wanted
    named = {"instances": [dict(zip(("x0", "x1", "x2", "x3"), row)) for row in X.tolist()]}
    again = generated.PredictionsApi(client).predict("generated", generated.PredictRequest.from_dict(named))
    assert [p.actual_instance for p in again.predictions] == wanted
    inputs = [{"name": "X", "datatype": "FP64", "shape": [5, 4], "data": X.ravel().tolist()}]
    answer = generated.InferenceApi(client).infer("generated", generated.InferRequest.from_dict({"inputs": inputs}))
    np.testing.assert_array_equal([p.actual_instance for p in answer.outputs[0].data], wanted)


def test_the_lines_of_the_how_to(generated, shared_daemon, capsys):
    """They run as they stand; only the address is this daemon's."""
    page = (ROOT / "docs/how-to/README.md").read_text()
    [lines] = re.findall(r"^    import krrd_client\n(?:^    .*\n)+", page, re.M)
    X, y = data.regression(60, d=5, seed=5)
    shared_daemon.api.train("airfoil", shared_daemon.api.upload_csv(X, y), kernel="gaussian")
    exec(re.sub("^    ", "", lines, flags=re.M).replace("http://127.0.0.1:8080", shared_daemon.base), {})
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_models_and_aliases(generated, client, trained):
    models = generated.ModelsApi(client)
    assert models.get_model_version("generated", 1).job == trained[1].id
    assert "generated" in [model.name for model in models.list_models().data]
    models.set_alias("generated", "prod", generated.SetAliasRequest(version=1))
    assert models.get_alias("generated", "prod").version == 1
    exported = bytes(models.export_model("generated", 1))
    assert models.import_model("generated-copy", body=exported).name == "generated-copy"


def test_system(generated, client):
    system = generated.SystemApi(client)
    assert system.health_ready().ready and system.health_live().live
    assert {"cpu"} <= {device.name for device in system.list_devices().data}
    for methods in (system.list_solvers, system.list_kernels, system.list_preconditioners,
                    system.list_center_selectors):
        assert len(methods().data) > 3
    assert system.list_workers().data


def test_refusals(generated, client):
    with pytest.raises(generated.ApiException) as refused:
        generated.JobsApi(client).get_job("job_" + "0" * 26)
    assert refused.value.status == 404 and json.loads(refused.value.body)["code"] == "not_found"
