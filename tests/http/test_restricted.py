"""Models on few centers: selectors, solvers, centers from a file, and more rows than memory."""

import os
import pathlib

import numpy as np
import pytest

import daemon as daemon_module
import data

KERNEL = {"name": "gaussian", "bandwidth": 2.0}
WEIGHTED = ("bless", "bless_r", "rls", "two_pass", "squeak")


def spec_of(dataset, **more):
    return {"dataset": dataset, "kernel": KERNEL, "regularization": 1e-4,
            "stop": {"tolerance": 1e-7}, "test": {"fraction": 0}, **more}


def names_of(api, path):
    return [entry for entry in api.get(path).json()["data"]]


@pytest.fixture(scope="module")
def problem(api):
    X, y = data.regression(500, seed=70)
    return X, y, api.upload_npz(X, y)


def gaussian(A, B):
    return np.exp(-data.distances("gaussian", A, B) ** 2 / (2 * KERNEL["bandwidth"] ** 2))


def reference(X, y, Z, regularization):
    """Predictions at X of the restricted problem with standardised features and target."""
    mean, scale = X.mean(0), X.std(0)
    A, C = (X - mean) / scale, (Z - mean) / scale
    target = (y - y.mean()) / y.std()
    K, core = gaussian(A, C), gaussian(C, C)
    values, vectors = np.linalg.eigh(core)
    root = vectors * np.sqrt(np.maximum(values, 0))
    stacked = np.vstack([K, np.sqrt(len(X) * regularization) * root.T])
    b = np.linalg.lstsq(stacked, np.concatenate([target, np.zeros(len(Z))]), rcond=1e-13)[0]
    return K @ b * y.std() + y.mean()


def test_centers_from_a_file(api, name, problem):
    X, y, dataset = problem
    Z = X[::10] + 0.01
    centers = api.upload_npz(Z, np.zeros(len(Z)))
    job = api.train(name, **spec_of(dataset, solver="direct",
                                    centers={"method": "file", "dataset": centers}))
    assert job["result"]["centers"] == len(Z)
    found = np.array(api.predict(name, X).json()["predictions"])
    assert found == pytest.approx(reference(X, y, Z, 1e-4), abs=1e-5)
    assert api.get(f"/v1/models/{name}/versions/1").json()["description"]["centers"] == len(Z)


@pytest.mark.parametrize("solver", ["eigenpro3", "eigenpro4"])
def test_a_data_set_as_centers_of_its_augmented_rows(api, name, solver):
    """The model's size is that of the original data, its training rows are as many as one likes."""
    X, y = data.regression(150, d=3, seed=72, noise=0.3)
    rng = np.random.default_rng(73)
    copies = np.concatenate([X] + [X + 0.05 * rng.normal(size=X.shape) for _ in range(7)])
    targets = np.tile(y, 8)
    job = api.train(name, **spec_of(
        api.upload_npz(copies, targets), solver=solver,
        centers={"method": "file", "dataset": api.upload_npz(X, y)}))
    assert (job["result"]["centers"], job["result"]["train_rows"]) == (150, 1200)
    assert job["reason"] == "converged"
    found = np.array(api.predict(name, copies).json()["predictions"])
    assert found == pytest.approx(reference(copies, targets, X, 1e-4), abs=1e-3)


def test_every_selector_with_every_solver(api, name, problem):
    X, y, dataset = problem
    centers = api.upload_npz(X[:40], y[:40])
    solvers = [s["name"] for s in names_of(api, "/v1/solvers") if s["centers"]]
    selectors = [s["name"] for s in names_of(api, "/v1/center_selectors")]
    assert "falkon" in solvers and "uniform" in selectors
    for selector in selectors:
        for solver in solvers:
            given = {"method": selector}
            given.update({"dataset": centers} if selector == "file" else {"count": 40})
            spec = spec_of(dataset, solver=solver, centers=given, stop={"tolerance": 1e-3})
            if solver == "falkon_bless" and selector not in WEIGHTED:
                refused = api.post("/v1/jobs", 422, json={"model": name, **spec}).json()
                assert refused["errors"][0]["pointer"] == "#/centers/method"
                continue
            job = api.wait(api.create(name, **spec)["id"])
            assert job["status"] == "succeeded", (selector, solver, job)
            assert 1 <= job["result"]["centers"] <= 200, (selector, solver)
            error = np.array(api.predict(name, X).json()["predictions"]) - y
            assert np.sqrt(np.mean(error ** 2)) < 0.5 * y.std(), (selector, solver)


def test_auto_takes_a_restricted_solver(api, name, problem):
    X, y, dataset = problem
    job = api.train(name, **spec_of(dataset, centers="uniform"))
    assert job["result"]["solver"] in [s["name"] for s in names_of(api, "/v1/solvers")
                                       if s["centers"]]
    assert job["result"]["centers"] == 224  # ceil(10 sqrt(500))
    assert job["reason"] == "converged"
    assert 0 < job["result"]["whitened_residual"] < 1e-5


def test_falkon_bless_draws_by_leverage_scores(api, name, problem):
    X, y, dataset = problem
    job = api.train(name, **spec_of(dataset, solver="falkon_bless"))
    assert job["spec"]["centers"]["method"] == "bless"
    assert job["reason"] == "converged"
    refused = api.post("/v1/jobs", 422, json={"model": name, **spec_of(
        dataset, solver="falkon_bless", centers="kmeans")}).json()
    assert refused["errors"][0]["pointer"] == "#/centers"


@pytest.mark.parametrize("method", WEIGHTED)
def test_scores_at_a_regularization_of_their_own(api, name, method):
    """As published: scores at a larger lambda than the solver's ask for fewer centers."""
    X, y = data.regression(1500, d=3, seed=75, noise=0.2)
    spec = {"dataset": api.upload_npz(X, y), "kernel": KERNEL, "regularization": 1e-6, "solver": "falkon_bless",
            "test": {"fraction": 0.2}, "stop": {"tolerance": 1e-6}}
    jobs = [api.train(name, **spec, centers={"method": method, "count": "auto", **more})
            for more in ({}, {"regularization": 1e-4}, {"regularization": 1e-4, "count": 120})]
    counts = [job["result"]["centers"] for job in jobs]
    assert counts[1] < 0.7 * counts[0] and counts[2] == 120
    errors = [job["result"]["metrics"]["rmse"] for job in jobs]
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
    assert jobs[0]["spec"]["centers"]["regularization"] == "auto"
    assert jobs[1]["spec"]["centers"]["regularization"] == 1e-4
    assert all(job["result"]["regularization"] == 1e-6 for job in jobs)


@pytest.mark.parametrize("wrong", [0, -1e-4, "small", None])
def test_a_regularization_of_scores_is_checked(api, problem, wrong):
    spec = spec_of(problem[2], centers={"method": "bless", "regularization": wrong})
    refused = api.post("/v1/jobs", 422, json={"model": "m", **spec}).json()
    assert refused["errors"][0]["pointer"] == "#/centers/regularization"


def test_the_path_of_regularizations_is_told(api, name, problem):
    X, y, dataset = problem
    centers = {"method": "bless", "count": "auto", "regularization": 1e-3, "q": 3}
    job = api.train(name, **spec_of(dataset, centers=centers))
    scores = job["result"]["leverage_scores"]
    assert scores["regularization"] == pytest.approx(1e-3)
    assert [level["regularization"] for level in scores["path"]] == pytest.approx(
        [10 ** (-3 * h / 7) for h in range(1, 8)])  # 3^6 < 1 / lambda < 3^7
    assert scores["path"][-1]["centers"] == job["result"]["centers"]
    A = (X - X.mean(0)) / X.std(0)
    K = gaussian(A, A)
    values = np.linalg.eigvalsh(K) / len(X)
    found = np.array([level["effective_dimension"] for level in scores["path"]])
    exact = np.array([np.sum(values / (values + level["regularization"])) for level in scores["path"]])
    assert np.all(found > 0.65 * exact) and np.all(found < 2 * exact)  # the first ones are made from few points
    assert scores["effective_dimension"] == found[-1] == pytest.approx(exact[-1], rel=0.35)
    said = " ".join(e["message"] for e in api.events(job["id"]) if e["type"] == "message")
    assert f"effective dimension {scores['effective_dimension']:.4g}" in said
    uniform = api.train(name, **spec_of(dataset, centers={"method": "uniform", "count": 30}))
    assert uniform["result"]["leverage_scores"] is None


def test_uniform_centers_have_no_scores(api, problem):
    spec = spec_of(problem[2], centers={"method": "uniform", "regularization": 1e-4})
    refused = api.post("/v1/jobs", 422, json={"model": "m", **spec}).json()
    assert refused["errors"][0]["pointer"] == "#/centers/regularization"


def test_falkon_bless_from_zero(api, name, problem):
    """As published; by default it begins with the solution of the centers' own problem."""
    X, y, dataset = problem
    given = spec_of(dataset, centers={"method": "bless", "count": 60}, stop={"tolerance": 1e-9, "max_iterations": 1})
    first = {}
    for start in ("zero", "centers"):
        job = api.train(name, **given, solver={"name": "falkon_bless", "start": start})
        assert job["spec"]["solver"]["start"] == start
        first[start] = job["result"]["relative_residual"]
    assert first["centers"] < first["zero"]
    refused = api.post("/v1/jobs", 422, json={"model": "m", **given, "solver": {"name": "falkon_bless", "start": "x"}})
    assert refused.json()["errors"][0]["pointer"] == "#/solver/start"


def test_classes(api, name):
    X, labels = data.classification(300, seed=71)
    dataset = api.upload_csv(X, labels)
    job = api.train(name, **spec_of(dataset, solver="falkon", test={"fraction": 0.2},
                                    centers={"method": "uniform", "count": 30}))
    assert job["result"]["metrics"]["accuracy"] > 0.9


def test_a_warm_start_finds_its_centers(api, name, problem):
    X, y, dataset = problem
    given = spec_of(dataset, solver="falkon", centers={"method": "uniform", "count": 60})
    first = api.train(name, **given)
    again = api.train(name, **given, warm_start=name)
    assert first["result"]["iterations"] > 1 and again["result"]["iterations"] <= 1
    said = " ".join(e["message"] for e in api.events(again["id"]) if e["type"] == "message")
    assert "60 of 60 centers" in said


def test_pause_and_resume_to_the_same_bits(daemons, name):
    daemon = daemons(checkpoint_interval_s=0.2)
    api = daemon.api
    X, y = data.regression(60000, d=6, seed=72)
    dataset = api.upload_npz(X, y)
    given = spec_of(dataset, solver="cg", centers={"method": "uniform", "count": 300},
                    regularization=1e-9, stop={"tolerance": 1e-12, "max_iterations": 60})
    straight = api.train(f"{name}-straight", **given, timeout=300)
    job = api.create(name, **given)
    api.wait_running(job["id"])
    api.post(f"/v1/jobs/{job['id']}/pause", None)
    api.wait(job["id"], ("paused",))
    api.post(f"/v1/jobs/{job['id']}/resume", None)
    resumed = api.wait(job["id"], timeout=300)
    assert resumed["status"] == "succeeded", resumed
    digests = [api.get(f"/v1/models/{model}/versions/1").json()["sha256"]
               for model in (f"{name}-straight", name)]
    assert digests[0] == digests[1]
    assert resumed["result"]["iterations"] == straight["result"]["iterations"]


@pytest.fixture
def memory_group():
    """memory_group(bytes): the folder of a new control group with that limit, or None where none may
    be made here."""
    made = []

    def make(limit):
        for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                           ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(root) / f"krrd-test-{os.getpid()}"
            try:
                group.mkdir()
                made.append(group)
                (group / name).write_text(str(limit))
                return group
            except OSError:
                continue
        return None

    yield make
    for group in made:
        group.rmdir()


def anonymous_bytes(pid):
    """What a process holds itself: pages of mapped files can be dropped at any time."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer's memory is its own")
def test_more_rows_than_memory(memory_group, tmp_path, name):
    """A worker that may take a quarter of the file's size trains on the whole file. Where no limit can
    be set, which only a control group can, it keeps what there is room for."""
    rows, d = 2_000_000, 39
    rng = np.random.default_rng(73)
    X = rng.random(size=(rows, d + 1), dtype=np.float32)
    X[:, d] = np.sin(3 * X[:, 0]) + X[:, 1]
    limit = X.nbytes // 4
    group = memory_group(limit)
    daemon = daemon_module.Daemon(tmp_path)
    try:
        train_beyond(daemon.api, name, X, limit, group)
    finally:
        daemon.close()


def moved(pid, group):
    """Whether the process could be put into the group: a container may let us make one and no more."""
    try:
        (group / "cgroup.procs").write_text(str(pid))
        return True
    except OSError:
        return False


def trainer(api):
    return next(w["pid"] for w in api.get("/v1/workers").json()["data"] if w["kind"] == "train")


def watch_memory(api, job, pid):
    """The job as it ends well, and the most that its worker held itself."""
    most = [0]

    def ended(job):
        most.append(anonymous_bytes(pid))
        return job["status"] in ("succeeded", "failed")

    job = api.wait(job["id"], ended, timeout=300)
    assert job["status"] == "succeeded", job
    return job, max(most)


def train_beyond(api, name, X, limit, group):
    rows = len(X)
    dataset = api.upload(data.npy(X), "application/x-npy")["id"]
    del X
    pid = trainer(api)
    limited = group is not None and moved(pid, group)
    if limited:
        # a full model has no place there, and the worker says so instead of being killed
        full = api.wait(api.create(f"{name}-full", dataset, solver="pcg", kernel=KERNEL)["id"],
                        timeout=120)
        assert (full["status"], full["reason"]) == ("failed", "out_of_memory")
    job = api.create(name, dataset, solver="falkon", kernel="gaussian", precision="mixed",
                     regularization=1e-6, stop={"tolerance": 1e-2}, kernel_cache_bytes=0,
                     centers={"method": "uniform", "count": 60})
    job, most = watch_memory(api, job, pid)
    assert 0 < most and (most < limit or not limited)
    assert job["result"]["train_rows"] == rows * 8 // 10
    assert job["result"]["metrics"]["r2"] > 0.5


@pytest.mark.skipif("KRRD_TEST_SANITIZER" in os.environ, reason="a sanitizer's memory is its own")
def test_file_beyond_a_workers_memory(tmp_path, name):
    """Rows that are read in tiles need not fit the memory that a worker is given; those of a full model do."""
    rows, d = 1_000_000, 39
    X = np.random.default_rng(74).random(size=(rows, d + 1), dtype=np.float32)
    X[:, d] = np.sin(3 * X[:, 0]) + X[:, 1]
    limit = X.nbytes * 3 // 4
    daemon = daemon_module.Daemon(tmp_path, worker_memory_bytes=limit)
    try:
        api = daemon.api
        dataset = api.upload(data.npy(X), "application/x-npy")["id"]
        spec = {"model": name, "dataset": dataset, "kernel": KERNEL, "solver": "pcg"}
        refused = api.post("/v1/jobs", json=spec, expect=422)
        assert refused.json()["code"] == "does_not_fit"
        job = api.create(name, dataset, solver="krill", kernel="gaussian", centers={"count": 60},
                         stop={"tolerance": 1e-2})
        memory = job["plan"]["memory"]
        assert memory["reserved_bytes"] <= limit < memory["host_bytes"]
        _, most = watch_memory(api, job, trainer(api))
        assert 0 < most <= memory["reserved_bytes"]
    finally:
        daemon.close()


@pytest.mark.parametrize("solver", ["direct", "falkon", "krill"])
def test_rows_that_are_all_the_same(api, name, solver):
    """Centered targets leave nothing to fit but the rounding of their mean: the model is that."""
    text = "a,b,y\n" + "".join(f"1,2,{i % 2}\n" for i in range(800))
    dataset = api.upload(text, target="y", task="regression")["id"]
    job = api.train(name, solver=solver, centers={"method": "uniform", "count": 20}, **spec_of(dataset))
    assert job["reason"] == "converged"
    assert api.predict(name, [[1, 2]]).json()["predictions"][0] == pytest.approx(0.5, abs=1e-9)
