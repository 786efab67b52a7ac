"""The Kubernetes manifests against the schemas of several of its versions, which kubernetes-validate brings along."""

import pathlib

import kubernetes_validate
import pytest
import yaml

KUBERNETES = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"
VERSIONS = ("1.27", "1.31", kubernetes_validate.latest_version())


def documents(name):
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def check(document, version):
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_one(version):
    found = documents("krrd.yaml")
    assert [one["kind"] for one in found] == ["PersistentVolumeClaim", "Deployment", "Service"]
    for one in found:
        check(one, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_containers_of_the_runtime_could_run_in_a_pod(version):
    """ServingRuntime is KServe's own kind, which Kubernetes has no schema for."""
    (runtime,) = documents("kserve-runtime.yaml")
    assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
    check({"apiVersion": "v1", "kind": "Pod", "metadata": runtime["metadata"],
           "spec": {"containers": runtime["spec"]["containers"]}}, version)


@pytest.mark.parametrize("change", [
    lambda spec: spec.update(replica=1),
    lambda spec: spec["template"]["spec"]["containers"][0].update(port=8080),
    lambda spec: spec["template"]["spec"]["containers"][0]["livenessProbe"].update(periodSeconds="often"),
    lambda spec: spec.pop("selector"),
])
def test_what_is_wrong_is_found(change):
    deployment = documents("krrd.yaml")[1]
    change(deployment["spec"])
    with pytest.raises(kubernetes_validate.ValidationError):
        check(deployment, VERSIONS[-1])
