"""The commands of README.md and docs/ do what the text around them says: they are run, in order."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/http"))

import daemon as programs  # noqa: E402
import data  # noqa: E402

KRR = pathlib.Path(programs.program("KRRD_TEST_CLIENT", "src/client/krr"))
# What installs or leaves something running; tests of their own run these.
ELSEWHERE = ("scripts/", "export ", "build", "tools/")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    daemon = programs.Daemon(tmp_path_factory.mktemp("docs"))
    end = time.monotonic() + 60
    while daemon.api.get("/v2/health/ready", expect=None).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.1)
    yield daemon
    daemon.close()


def commands(path, begin=None, end=None):
    """Indented lines of a document; one that ends with a backslash or in a quotation goes on in the next."""
    text = (ROOT / path).read_text()
    text = text[text.index(begin) if begin else 0:]
    text = text[: text.index(end, 1) if end else None]
    text = re.sub(r"\\\n\s*", "", text)
    lines = re.sub(r"^(    curl [^'\n]*(?:'[^'\n]*'[^'\n]*)*'[^'\n]*)\n +", r"\1", text, flags=re.M).split("\n")
    found = [line[4:] for line in lines if re.match(r"    (krr|curl|examples/|head|printf|echo|awk) ?\S", line)]
    return [re.sub(r"\s{2,}#.*", "", line) for line in found if not line.startswith(ELSEWHERE)]


def run_all(lines, daemon, folder, job="", after=lambda line: None):
    """Each in one shell's folder; ids in an answer stand for ds_… and job_… from then on."""
    known = {"ds": "", "job": job}
    environment = {**os.environ, "KRR_URL": daemon.base, "PATH": f"{KRR.parent}:{os.environ['PATH']}"}
    outputs = []
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    for line in lines:
        line = line.replace("http://127.0.0.1:8080", daemon.base)
        line = line.replace("ds_…", known["ds"]).replace("job_…", known["job"])
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, text=True,
                              capture_output=True, timeout=120)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert '"status":4' not in done.stdout, (line, done.stdout)
        for prefix in known:
            match = re.search(rf'"id":"({prefix}_\w+)"', done.stdout)
            known[prefix] = match.group(1) if match else known[prefix]
        if "/v1/jobs --json" in line:
            daemon.api.wait(known["job"])
        after(line)
        outputs.append((line, done.stdout + done.stderr))
    return outputs


def test_the_tutorial(daemon, tmp_path):
    lines = commands("docs/tutorial.md")
    assert len(lines) > 12
    outputs = run_all(lines, daemon, tmp_path)
    said = {line: out for line, out in outputs}
    predicted = said["printf 'x\\n0.5\\n1.5\\n' | krr predict sine"].split()
    assert predicted[0] == "y" and abs(float(predicted[1]) - 0.479) < 0.1 and abs(float(predicted[2]) - 0.997) < 0.1
    assert "sine" in said["krr models sine"]
    assert re.search(r"r2 +0\.9", said["krr train sine.csv --target y"])
    rmse = {line: float(re.search(r"rmse +(\S+)", out)[1]) for line, out in outputs if line.startswith("krr train")}
    usual, rough, smooth, found = rmse.values()  # each step makes it better, as the text says
    assert smooth < rough and found < usual < rough, rmse


@pytest.mark.parametrize("begin, end", [
    ("## Train and predict from the command line", "## Train and predict with curl"),
    ("## Train and predict with curl", "A long job is not lost"),
])
def test_the_readme(daemon, tmp_path, begin, end):
    lines = commands("README.md", begin, end)
    assert len(lines) >= 3
    run_all(lines, daemon, tmp_path)


def test_aliases_and_exports_of_the_readme(daemon, tmp_path):
    lines = commands("README.md", "## Train and predict with curl", "    curl -sN")
    more = commands("README.md", "An alias is a name", "## Where next")
    assert len(lines) == 3 and len(more) == 7
    *outputs, onnx, safetensors, imported = run_all(lines + more, daemon, tmp_path)
    said = dict(outputs)
    assert json.loads(said[next(line for line in said if "/rollback" in line)])["version"] == 1
    assert (tmp_path / "sine-v1.onnx").stat().st_size > 1000 and json.loads(imported[1])["name"] == "copy"


def tables(folder):
    """The files that the how-to pages speak of."""
    import gzip
    X, y = data.regression(400, d=4)
    for name in ("data.csv", "new.csv", "prices.csv"):
        (folder / name).write_bytes(data.csv(X, y))
    (folder / "big.csv.gz").write_bytes(gzip.compress(data.csv(*data.regression(1000, d=4))))
    (folder / "skewed.csv").write_bytes(data.csv(X, np.exp(y)))
    (folder / "houses.csv").write_text("when,city,size,price\n" + "".join(
        f"2020-01-{i % 28 + 1:02},{('Rome', 'Oslo')[i % 3 == 0]},{i},{i * 2.5}\n" for i in range(60)))
    (folder / "flats.csv").write_text("size,rooms,city,rent\n" + "".join(
        f"{i if i % 5 else ''},{i % 4 + 1},{('Rome', 'Oslo', 'NA')[i % 3]},{i * 12.5}\n" for i in range(60)))
    letters = "\n".join(",".join([*map(repr, row), "AB"[value > 2]]) for row, value in zip(X.tolist(), y.tolist()))
    (folder / "letters.csv").write_text("a,b,c,d,letter\n" + letters + "\n")


def test_the_how_tos(daemon, tmp_path):
    tables(tmp_path)
    lines = commands("docs/how-to/README.md")
    assert len(lines) >= 14
    run_all(["examples/make-sine > sine.csv", "krr train sine.csv --target y", "krr train prices.csv --target y"], daemon, tmp_path)
    dataset = daemon.api.get("/v1/datasets", params={"limit": 1}).json()["first_id"]
    (tmp_path / "job.json").write_text(json.dumps({"model": "again", "dataset": dataset}))
    X, y = data.regression(6000, d=6, seed=99)
    long = daemon.api.create("long", daemon.api.upload_npz(X, y), solver={"name": "pcg", "preconditioner": "none"},
                             kernel={"name": "gaussian", "bandwidth": 3.0}, regularization=1e-13,
                             stop={"tolerance": 1e-15, "max_iterations": 10**6})["id"]

    def after(line):
        """A paused job frees its worker; one that goes on is not waited for."""
        if line.startswith("krr pause"):
            daemon.api.wait(long, ("paused",))
        elif line.startswith("krr resume"):
            daemon.api.cancel(long)
            daemon.api.wait(long)

    first = next(i for i, line in enumerate(lines) if line.startswith("krr pause"))
    daemon.api.wait_running(long)
    ordered = lines[first:first + 2] + lines[:first] + lines[first + 2:]  # the long job holds the worker
    said = dict(run_all(ordered, daemon, tmp_path, long, after))
    assert said[next(line for line in lines if line.startswith("curl -s -T"))].count('"sha256"') == 1
    assert "Bandwidth by the median rule" in said[next(line for line in lines if "--bandwidth median" in line)]
    begun = re.search(r"Warm start: (\d+) of", said[next(line for line in lines if "warm_start=" in line)])
    assert int(begun[1]) > 100
    again = next(line for line in lines if "Idempotency-Key" in line)
    assert run_all([again], daemon, tmp_path)[0][1] == said[again]


@pytest.mark.parametrize("document", sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"),
                                                                         *ROOT.glob("deploy/*.md")]), ids=str)
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (ROOT / document).parent.joinpath(target).exists(), target


def test_options_in_the_documents_are_options_of_the_client():
    helps = {}
    for document in ("docs/tutorial.md", "docs/how-to/README.md", "README.md", "deploy/README.md"):
        for line in re.findall(r"^    (?:.*\| )?(krr .*)$", (ROOT / document).read_text(), re.M):
            command = line.split()[1]
            if command not in helps:
                done = subprocess.run([KRR, command, "--help"], capture_output=True, text=True)
                assert done.returncode == 0, line
                helps[command] = done.stdout
            for option in re.findall(r"(?<!\S)--[a-z-]+", line.split("#")[0]):
                assert option in helps[command], line


def test_methods_in_the_guide_are_methods(daemon):
    text = (ROOT / "docs/solvers.md").read_text()
    known = set()
    for path in ("solvers", "kernels", "preconditioners", "center_selectors"):
        for row in daemon.api.get(f"/v1/{path}").json()["data"]:
            known |= {row["name"], *(parameter["key"] for parameter in row["parameters"])}
            known |= {choice for parameter in row["parameters"] for choice in parameter.get("choices", [])}
    words = {"auto", "float32", "float64", "mixed", "stop.tolerance", "time_budget_s"}
    for word in re.findall(r"`([a-z0-9_.]+)`", text):
        assert word in known | words, word
    solvers = {row["name"] for row in daemon.api.get("/v1/solvers").json()["data"]}
    assert solvers - {"auto"} <= set(re.findall(r"`([a-z0-9_]+)`", text)), "a solver is not in the guide"
