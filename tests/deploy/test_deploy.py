"""What stands in deploy/ and the Dockerfiles against the programs themselves."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(ROOT / "tests/http"))

import daemon as programs  # noqa: E402

DAEMON = programs.program("KRRD_TEST_DAEMON", "src/server/krrd")
PROGRAMS = [DAEMON, programs.program("KRRD_TEST_WORKER", "src/worker/krrd-worker"),
            programs.program("KRRD_TEST_CLIENT", "src/client/krr")]


def run(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)


def need(name):
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    return name


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The metrics of a daemon with workers."""
    daemon = programs.Daemon(tmp_path_factory.mktemp("metrics"))
    daemon.api.worker_pid("serve", "idle")
    text = daemon.api.get("/metrics").text
    daemon.close()
    return text


@pytest.fixture(scope="module")
def families(page):
    """Names of the samples that the daemon's metrics have, whether or not there are any yet."""
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M):
        names |= {name + end for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
    return names


def used_metrics(text):
    return set(re.findall(r"\b((?:krrd|process)_[a-z0-9_]+)", text))


@pytest.mark.parametrize("file", [*DEPLOY.rglob("*.yaml")], ids=lambda f: str(f.relative_to(DEPLOY)))
def test_every_yaml_file_can_be_read(file):
    assert all(list(yaml.safe_load_all(file.read_text())))


def test_alerts_speak_of_metrics_that_exist(families):
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    assert len(rules) >= 8
    for rule in rules:
        used = used_metrics(rule["expr"])
        assert used or "up{" in rule["expr"], rule["alert"]
        assert used <= families, (rule["alert"], used - families)
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_the_dashboard_speaks_of_metrics_that_exist(families):
    board = json.loads((DEPLOY / "grafana/dashboards/krrd.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            used = used_metrics(target["expr"])
            assert used and used <= families, (panel["title"], used - families)
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])


def test_the_list_of_metrics_is_whole(page):
    """Each once, with the labels that its samples have, histograms in italics."""
    listed = {}
    for row in re.findall(r"^\|[^|]*\|([^|]*(?:krrd|process)_[^|]*)\|([^|]*)\|$", (DEPLOY / "README.md").read_text(), re.M):
        labels = set(re.findall(r"`(\w+)`", row[1]))
        for italics, name in re.findall(r"(\*?)`(\w+)`", row[0]):
            assert name not in listed, name
            listed[name] = ("histogram" if italics else None, labels)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    assert listed.keys() == kinds.keys(), listed.keys() ^ kinds.keys()
    assert {n for n, (kind, _) in listed.items() if kind} == {n for n, kind in kinds.items() if kind == "histogram"}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", page, re.M):
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        assert {key for key, _ in re.findall(r'(\w+)="([^"]*)"', labels)} - {"le"} == listed[family][1], name


def dashboard():
    return json.loads((DEPLOY / "grafana/dashboards/krrd.json").read_text())


def test_panels_of_the_dashboard_stand_beside_each_other():
    board, taken = dashboard(), {}
    assert board["uid"] and board["title"] and board.get("id") is None and board["schemaVersion"] >= 36
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    variables = {v["name"] for v in board.get("templating", {}).get("list", [])}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert panel["title"] and panel["type"] and place["x"] + place["w"] <= 24, panel["title"]
        assert panel["type"] == "row" or panel["datasource"]["uid"] in (source["uid"], "${datasource}"), panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[(x, y)])
                taken[(x, y)] = panel["title"]
        for target in panel.get("targets", []):
            used = set(re.findall(r"\$\{?([a-z]\w*)", target["expr"]))
            assert used <= variables, (panel["title"], used)


def test_queries_of_the_dashboard_are_well_formed(tmp_path):
    promtool = need("promtool")
    rules = []
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            text = re.sub(r"\$__(rate_)?interval", "5m", target["expr"])
            rules.append({"record": f"panel:{len(rules)}", "expr": re.sub(r"\$\{?[a-z]\w*\}?", "x", text)})
    assert len(rules) > 10
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = run(promtool, "check", "rules", path)
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stderr + done.stdout


def test_states_in_rules_are_states_of_workers_and_jobs():
    text = (DEPLOY / "prometheus/alerts.yaml").read_text() + (DEPLOY / "grafana/dashboards/krrd.json").read_text()
    states = set(re.findall(r'state=\\?"(\w+)', text))
    statuses = set(re.findall(r'status=\\?"(\w+)', text))
    pool = "".join(file.read_text() for file in (ROOT / "src/server/pool").glob("*.c"))
    assert states and all(f'"{s}"' in pool for s in states)
    contract = yaml.safe_load((ROOT / "api/openapi.yaml").read_text())
    assert statuses and statuses <= set(contract["components"]["schemas"]["JobStatus"]["enum"])


def test_promtool_has_no_complaint():
    promtool = need("promtool")
    for words in (["check", "rules", DEPLOY / "prometheus/alerts.yaml"],
                  ["check", "config", DEPLOY / "prometheus/prometheus.yaml"]):
        done = run(promtool, *words)
        assert done.returncode == 0, done.stderr + done.stdout


def compose_program():
    """Docker's own, or the distribution's docker-compose."""
    if shutil.which("docker") and run("docker", "compose", "version").returncode == 0:
        return ["docker", "compose"]
    return [need("docker-compose")]


def test_compose_can_be_read(tmp_path):
    program = compose_program()
    done = run(*program, "-f", DEPLOY / "compose.yaml", "config")
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == {"krrd", "prometheus", "grafana"}
    broken = tmp_path / "compose.yaml"
    broken.write_text((DEPLOY / "compose.yaml").read_text().replace("command:", "comand:", 1))
    assert run(*program, "-f", broken, "config").returncode != 0


def test_the_project_has_a_name():
    assert (DEPLOY / ".env").read_text() == "COMPOSE_PROJECT_NAME=krrd\n"


def test_compose_mounts_what_is_there():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (DEPLOY / volume.split(":")[0]).exists(), volume
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def flags():
    return set(re.findall(r"^  (--[a-z-]+)", run(DAEMON, "--help").stdout, re.M))


def words_of(node):
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        return [word for item in node for word in words_of(item)]
    return str(node).split()


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes/krrd.yaml", "kubernetes/kserve-runtime.yaml"])
def test_flags_are_flags_of_the_daemon(file):
    for document in yaml.safe_load_all((DEPLOY / file).read_text()):
        for word in words_of(document):
            if re.fullmatch(r"--[a-z][a-z-]+", word) and word not in ("--quiet",):
                assert word in flags(), word


@pytest.mark.parametrize("file", ["Dockerfile", "Dockerfile.cuda", "deploy/systemd/krrd.service"])
def test_environment_variables_are_settings_of_the_daemon(file):
    for name in re.findall(r"\b(KRRD_[A-Z_]+)=", (ROOT / file).read_text()):
        assert "--" + name[5:].lower().replace("_", "-") in flags(), name


@pytest.mark.parametrize("file", ["Dockerfile", "Dockerfile.cuda"])
def test_the_image_runs_as_a_user_and_group_that_it_has(file):
    text = (ROOT / file).read_text()
    user, group = re.search(r"^USER (\d+):(\d+)$", text, re.M).groups()
    assert f"useradd --uid {user} " in text and f"groupadd --gid {group} " in text


def test_the_image_has_every_library_that_the_programs_need():
    """Each shared object's package, or one that depends on it, is installed in the last stage."""
    need("dpkg")
    last = (ROOT / "Dockerfile").read_text().split("\nFROM ")[-1]
    listed = set(re.findall(r"\blib[a-z0-9.+-]+", last.split("rm -rf")[0]))
    missing = set()
    for program in PROGRAMS:
        direct = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", program).stdout)
        for line in run("ldd", program).stdout.splitlines():
            name, _, path = line.strip().partition(" => ")
            path = path.split(" ")[0]
            if name not in direct or not path.startswith("/") or re.match(r"lib(c|m|dl|pthread|asan|ubsan)\.so", name):
                continue
            owner = re.match(r"([a-z0-9.+-]+)", run("dpkg", "-S", os.path.realpath(path)).stdout)
            if owner and owner.group(1) not in listed and owner.group(1) not in provided(listed):
                missing.add((name, owner.group(1)))
    if pathlib.Path("/etc/os-release").read_text().find("VERSION_ID=\"12\"") < 0:
        pytest.skip("the image is of Debian 12, whose packages have other names here")
    assert not missing


def provided(listed):
    """What the listed packages bring along by the dependencies that dpkg knows."""
    found = set()
    for package in listed:
        text = run("dpkg-query", "-W", "-f=${Depends},${Pre-Depends}", package).stdout
        found |= set(re.findall(r"([a-z0-9.+-]+)(?:[ ,(|:]|$)", text))
    return found


def test_the_unit_is_one():
    text = (DEPLOY / "systemd/krrd.service").read_text()
    assert "Type=notify" in text and "PrivateDevices=yes" not in text
    done = run(need("systemd-analyze"), "verify", DEPLOY / "systemd/krrd.service")
    complaints = [line for line in done.stderr.splitlines() if "not executable" not in line and "man krr" not in line]
    assert not [line for line in complaints if "krrd.service" in line], complaints


def test_pods_end_later_than_the_drain():
    pod = list(yaml.safe_load_all((DEPLOY / "kubernetes/krrd.yaml").read_text()))[1]["spec"]["template"]["spec"]
    config = json.loads(run(DAEMON, "--print-config").stdout)
    assert pod["terminationGracePeriodSeconds"] > config["drain_timeout_s"]
    unit = (DEPLOY / "systemd/krrd.service").read_text()
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit).group(1)) > config["drain_timeout_s"]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert int(compose["services"]["krrd"]["stop_grace_period"].rstrip("s")) > config["drain_timeout_s"]
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
