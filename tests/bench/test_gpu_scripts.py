"""bench/gpu_problems.py and bench/peers/gpu.py on tiny problems and the processor: every document has
its figures, and what fails is told."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
PROGRAM = os.environ["KRRD_TEST_BENCH"]
BUILD = pathlib.Path(PROGRAM).parents[1]


def run(script, *words, **environment):
    return subprocess.run([sys.executable, str(BENCH / script), "--device", "cpu", *map(str, words)], capture_output=True,
                          text=True, timeout=200, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment})


def problem(tmp_path, part, *words):
    done = run("gpu_problems.py", part, "--programs", BUILD, "--output", tmp_path, *words)
    document = json.loads((tmp_path / f"problem-{part}.json").read_text())
    assert json.loads(done.stdout) == document
    return done.returncode, document


def test_molecules_through_the_daemon(tmp_path):
    status, document = problem(tmp_path, "molecules", "--n", 200, "--rank", 50, "--launcher", "env A=b")
    assert status == 0 and document["reason"] == "converged"
    assert (document["n"], document["result"]["train_rows"], document["plan"]["features"]) == (200, 200, 435)
    assert 0 < document["upload_seconds"] < document["seconds"] < document["seconds_to_model"]
    assert document["model_bytes"] > 200 * 435 * 4


def test_two_solvers(tmp_path):
    status, document = problem(tmp_path, "million", "--n", 2000, "--rank", 100, "--budget", 10)
    assert status == 0 and [s["report"]["solver"] for s in document["solves"]] == ["pcg", "askotch2"]
    for solve in document["solves"]:
        assert solve["report"]["metrics"]["r2"] > 0.5 and solve["report"]["train_rows"] == 2000
        assert solve["seconds_per_iteration"] > 0


@pytest.mark.parametrize("part", ["throughput", "growth"])
def test_steps_that_are_cut(tmp_path, part):
    status, document = problem(tmp_path, part, "--n", 30000, "--budget", 2)
    assert status == 0
    rows = document["table"] if part == "growth" else [document["solve"]]
    assert [row["n"] for row in rows] == ([300, 3000, 30000] if part == "growth" else [30000])
    for row in rows[-1:]:  # the smallest are done at once
        assert row["entries_per_s"] > 0 and row["last_step"]["iteration"] > 1 and row["host_memory_bytes"] > 1 << 20


def test_what_fails_is_told(tmp_path):
    status, document = problem(tmp_path, "throughput", "--n", 1000, "--programs", tmp_path)
    assert status == 1 and "there is no krr-bench-cuda" in document["failed"]


def test_products_without_peers(tmp_path):
    output = tmp_path / "peers.json"
    done = run("peers/gpu.py", "--krr-bench", PROGRAM, "--n", 1000, "--cases", "gaussian:3", "laplacian_l1:18", "--output",
               output, "--peers")
    results = json.loads(output.read_text())
    assert done.returncode == 0 and [case["d"] for case in results["cases"]] == [3, 18]
    for case in results["cases"]:
        assert case["krr_bench"]["symmetric"]["entries_per_s"] > 0 and case["krr_bench"]["plain"]["max_rel_err"] < 1e-5


def test_a_program_that_is_not_there(tmp_path):
    done = run("peers/gpu.py", "--krr-bench", tmp_path / "none", "--cases", "gaussian:3", "--peers")
    assert done.returncode == 1 and "none" in json.loads(done.stdout)["left_out"][0]["reason"]


def peers_with(tmp_path, torch, *words):
    """Two cases with this text in the place of PyTorch: why it is skipped in each, and what is on the terminal."""
    (tmp_path / "torch.py").write_text(torch)
    output = tmp_path / "peers.json"
    done = run("peers/gpu.py", "--krr-bench", PROGRAM, "--n", 1000, "--cases", "laplacian_l1:3", "laplacian_l1:4", "gaussian:5",
               "--output", output, "--peers", "torch", *words, PYTHONPATH=str(tmp_path))
    cases = json.loads(output.read_text())["cases"]
    assert done.returncode == 0 and [case["krr_bench"]["plain"]["entries_per_s"] > 0 for case in cases] == 3 * [True]
    return [case["skipped"] for case in cases], done.stderr


def test_a_peer_that_crashes_says_why(tmp_path):
    skipped, said = peers_with(tmp_path, "import os, sys\nprint('compiled')\nprint('no such header', file=sys.stderr)\n"
                                         "sys.stderr.flush()\nos.kill(os.getpid(), 11)\n")
    for case in skipped[:2]:  # a second time, and no more
        assert set(case) == {"torch", "torch_features"}
        reason = case["torch"].splitlines()
        assert reason[:3] == ["its process was ended by SIGSEGV:", "compiled", "no such header"] and "torch.py\", line 5" in case["torch"]
    assert skipped[2] == {name: "its process has ended 2 times" for name in ("torch", "torch_tf32")}
    assert "skipped: its process was ended by SIGSEGV:\n      compiled\n      no such header\n" in said
    log = (tmp_path / "peers-torch.log").read_text()
    assert log.count("no such header") == 2


def test_a_peer_that_exits(tmp_path):
    skipped, _ = peers_with(tmp_path, "import os\nos.write(2, b'error: cuMemAlloc\\n')\nos._exit(3)\n")
    assert skipped[0]["torch"] == "its process ended with status 3:\nerror: cuMemAlloc"


def test_a_peer_that_hangs_says_where(tmp_path):
    skipped, _ = peers_with(tmp_path, "import time\ntime.sleep(1000)\n", "--patience", 1)
    assert skipped[0]["torch"].startswith("no answer in 1 s:\n") and "torch.py\", line 2" in skipped[0]["torch"]


@pytest.fixture
def peers():
    spec = importlib.util.spec_from_file_location("peers_gpu", BENCH / "peers" / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_slow_peer_has_its_share(peers):
    class Slow:
        asked = []

        def ask(self, seconds, *request):
            self.asked.append(seconds)
            peers.time.sleep(0.2)
            return "shape"

    slow = Slow()
    options = peers.argparse.Namespace(n=1000, numbers=1e6, share=0.3, limit=100.0, began=peers.time.monotonic(), seconds=0.1,
                                       peers=["torch"])
    case = peers.Case(options, {"torch": slow}, "gaussian", 3)
    case.each(case.open)
    assert len(slow.asked) == 2 and slow.asked[0] == 0.3 and slow.asked[1] < 0.11
    assert case.skipped == dict.fromkeys(["torch", "torch_tf32"], "its 0.3 s for a case are used up")
    assert case.processes == {"torch": slow}  # it may go on with the next case


def fill(root, names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(str(root))


def test_cuda_for_keops_in_parts(peers, tmp_path):
    """Wheels with libraries and most headers, and a toolkit of another version with the rest."""
    wheels, toolkit, made = tmp_path / "nvidia" / "cu13", tmp_path / "cuda", tmp_path / "made"
    fill(wheels, ["include/cuda.h", "include/nvrtc.h", "lib/libnvrtc.so.13", "lib/libnvrtc-builtins.so.13.0",
                  "lib/libcudart.so.13", "lib/libcublas.so.13"])
    fill(toolkit, ["include/cuda.h", "include/crt/host_defines.h", "include/cccl/nv/target", "lib64/libnvrtc.so.12",
                   "lib64/libcudart.so.12"])
    peers.gather_cuda(made, [wheels, toolkit], tmp_path / "libcuda.so.1")
    assert [lack for lack in peers.keops_lacks(made) if "/" in lack] == ["lib64/libcuda.so (the driver)"]
    fill(tmp_path, ["libcuda.so.1"])
    assert not [lack for lack in peers.keops_lacks(made) if "/" in lack]
    assert (made / "include" / "cuda.h").read_text() == str(wheels)
    assert sorted(path.name for path in (made / "lib").iterdir()) == [
        "libcudart.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    assert (made / "lib64" / "libnvrtc.so").read_text() == str(wheels)


def test_cuda_that_is_not_there(peers, tmp_path):
    peers.gather_cuda(tmp_path / "made", [tmp_path / "none"], None)
    assert "include/nvrtc.h (nvidia-cuda-nvrtc)" in peers.keops_lacks(tmp_path / "made")
