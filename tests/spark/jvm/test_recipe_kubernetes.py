"""The manifests of docs/spark-recipes.md, as far as that shows without a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from pyspark.sql import SparkSession

from ..cluster import environment, short_lived
from ..conftest import new_name
from ..storages import Server
from .recipes import PROGRAMS, column, running_clicks

MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((PROGRAMS / "kubernetes.yml").read_text(encoding="utf-8"))
)
HOME = Path(pyspark.__path__[0])

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: str(manifest["kind"]))
def test_kubernetes_knows_every_field(manifest: dict[str, Any], spark: SparkSession) -> None:
    """By the model of Kubernetes' API that Spark itself brings."""
    jvm: Any = spark.sparkContext._jvm
    model = jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(json.dumps(manifest))
    assert model.getClass().getSimpleName() == manifest["kind"]
    assert list(_unknown(manifest, model)) == []


def test_the_check_finds_a_field_that_does_not_exist(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    manifest = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"prot": 1, "port": 2}]}}
    model = jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(json.dumps(manifest))
    assert list(_unknown(manifest, model)) == ["spec.ports.prot"]


def test_the_names_fit_each_other() -> None:
    by_kind = {manifest["kind"]: manifest for manifest in MANIFESTS}
    assert {manifest["metadata"]["name"] for manifest in MANIFESTS} == {"clicks"}
    pod = _template()
    assert by_kind["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    ports = {str(port["port"]) for port in by_kind["Service"]["spec"]["ports"]}
    settings = _settings()
    assert ports == {settings["spark.driver.port"], settings["spark.driver.blockManager.port"]}
    assert settings["spark.driver.host"] == by_kind["Service"]["metadata"]["name"]
    assert settings["spark.kubernetes.container.image"] == _container()["image"]
    given = {variable["name"] for variable in _container()["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(_container()["args"]))) <= given


def test_spark_knows_every_setting(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    owner = "org.apache.spark.deploy.k8s.Config"
    kinds = {
        method.getName(): method.getReturnType().getSimpleName()
        for method in jvm.java.lang.Class.forName(owner).getMethods()
        if not method.getParameterCount()
    }
    config = jvm.org.apache.spark.deploy.k8s.Config
    known = {getattr(config, name)().key() for name, kind in kinds.items() if kind.endswith("ConfigEntry")}
    secrets = config.KUBERNETES_EXECUTOR_SECRET_KEY_REF_PREFIX()
    settings = {name for name in _settings() if name.startswith("spark.kubernetes.")}
    assert {name for name in settings - known if not name.startswith(secrets)} == set()


def test_what_the_driver_runs_works_with_a_spool_in_s3(s3: Server, java: str, tmp_path: Path) -> None:
    """Here with executors in the driver's process, and with files instead of ``s3a://``."""
    spool = f"{s3.root}/{new_name()}"
    with running_clicks() as clicks:
        topic = clicks.channel("files")
        topic.publish_numbers(300)
        meant = {
            "--master=k8s://https://kubernetes.default.svc": "--master=local[2]",
            "--conf=spark.driver.host=clicks": "--conf=spark.driver.host=127.0.0.1",
            "--conf=spark.driver.bindAddress=$(IP)": "--conf=spark.driver.bindAddress=127.0.0.1",
            "--conf=spark.driver.port=7078": "--conf=spark.driver.port=0",
            "--conf=spark.driver.blockManager.port=7079": "--conf=spark.driver.blockManager.port=0",
            "/opt/program/to_files.py": str(PROGRAMS / "to_files.py"),
            "http://nsqlookupd:4161": clicks.nsqlookupd,
            "s3://bucket/clicks/spool": spool,
            "s3a://bucket/clicks": str(tmp_path),
        }
        written: list[str] = _container()["args"]
        assert meant.keys() <= set(written)
        variables = {"POD": "driver", "NAMESPACE": "default", **s3.environment}
        command = [
            re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], str(meant.get(word, word)))
            for word in written
        ]
        done = subprocess.run(
            [HOME / "bin" / "spark-submit", "--conf=spark.ui.enabled=false", *command],
            cwd=tmp_path,
            env={**os.environ, **environment(), **short_lived(), **s3.environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert topic.state().left == 0
    assert sorted(map(int, column(tmp_path / "clicks", "body"))) == list(range(300))


def _unknown(fields: Any, model: Any, path: str = "") -> Iterator[str]:
    """The fields that a class of the model has no getter for."""
    getters = {
        method.getName(): method.getReturnType().getSimpleName() for method in model.getClass().getMethods()
    }
    for name, value in fields.items():
        getter = f"get{name[0].upper()}{name[1:]}"
        if getter not in getters:
            yield f"{path}{name}"
            continue
        found = getattr(model, getter)()
        is_list = getters[getter] == "List"
        for each, one in zip(value if is_list else [value], found if is_list else [found], strict=True):
            # What is no class of the model is a map, such as that of labels.
            if isinstance(each, dict) and "fabric8" in one.getClass().getName():
                yield from _unknown(each, one, f"{path}{name}.")


def _template() -> dict[str, Any]:
    (job,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "CronJob")
    template: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]
    return template


def _container() -> dict[str, Any]:
    (container,) = _template()["spec"]["containers"]
    return dict(container)


def _settings() -> dict[str, str]:
    given = [word.removeprefix("--conf=") for word in _container()["args"] if word.startswith("--conf=")]
    return dict(setting.split("=", 1) for setting in given)
