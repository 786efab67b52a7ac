"""tools/gpu-run, with small programs in the place of those that tools/gpu-bundle brings: a test that
fails, is skipped or hangs is told, and none of them ends in success."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

RUN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu-run"
SUITE = """#!/bin/sh
case $1 in
--list) printf '%s\\n' good bad absent endless ;;
good) echo fine ;;
bad) echo '[  FAILED  ] test_of_numbers'; exit 1 ;;
absent) echo 'skipped: The library cuBLAS is not there.'; exit 77 ;;
endless) exec sleep 1000 ;;
esac
"""
WORKER = """#!/bin/sh
echo '{"devices": [%s"cpu"], "detail": null}'
"""
BENCH = """#!/bin/sh
echo '{"command":"operator","kernel":"gaussian","n":1,"entries_per_s":5e11,"max_rel_err":1e-7}'
"""


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(RUN, tmp_path / "run")
    for name, text in (("gpu-suite", SUITE), ("krrd-worker-cuda", WORKER % '"cuda:0", '), ("krr-bench-cuda", BENCH)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def run(bundle, *words, **environment):
    done = subprocess.run([bundle / "run", *words], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "OUT": str(bundle / "logs"), "TEST_S": "2", "LIBRARIES": "", **environment})
    return done.returncode, done.stdout.splitlines()


def test_a_test_that_passes(bundle):
    status, said = run(bundle, "tests", "good")
    assert status == 0 and said[-1] == "0 failed" and said[0].startswith("ok     good (")
    assert (bundle / "logs" / "good.log").read_text() == "fine\n"


def test_tests_that_do_not(bundle):
    status, said = run(bundle, "tests")
    assert status == 1 and said[-1] == "3 failed"
    assert any(line.startswith("FAILED bad (") for line in said) and "[  FAILED  ] test_of_numbers" in said
    assert "FAILED absent: skipped: The library cuBLAS is not there." in said
    assert any(line.startswith("FAILED endless: not done in ") for line in said)


def test_check_wants_a_gpu(bundle):
    assert run(bundle, "check")[0] == 0
    (bundle / "bin" / "krrd-worker-cuda").write_text(WORKER % "")
    status, said = run(bundle, "check")
    assert status == 1 and "FAILED there is no cuda:0" in said


def test_bench_keeps_every_line(bundle):
    status, said = run(bundle, "bench")
    lines = (bundle / "logs" / "bench.jsonl").read_text().splitlines()
    assert status == 0 and len(lines) == len(said) - 1 > 20
    assert said[0] == '"kernel":"gaussian" "n":1 "entries_per_s":5e11 "max_rel_err":1e-7}'


@pytest.mark.parametrize("step, script, words", [
    ("peers", "peers/gpu.py", ["--krr-bench", "bin/krr-bench-cuda", "--output", "logs/peers.json", "--n", "9"]),
    ("problems", "gpu_problems.py", ["molecules", "million", "throughput", "growth", "--n", "9", "--programs", "bin", "--output",
                                     "logs"]),
])
def test_scripts_get_programs_and_what_starts_them(bundle, step, script, words):
    path = bundle / "bench" / script
    path.parent.mkdir(parents=True)
    path.write_text("import sys\nprint(*sys.argv[1:], sep='\\n')\nsys.exit(sys.argv[-1] == '--fail')\n")
    status, said = run(bundle, step, "--n", "9")
    assert status == 0 and said[0] == "--launcher" and said[1].startswith("env LD_LIBRARY_PATH=" + str(bundle / "lib"))
    assert said[2:-1] == [w if w in ("--krr-bench",) or "/" not in w and w not in ("bin", "logs") else str(bundle / w)
                          for w in words]
    assert (bundle / "logs" / f"{step}.log").read_text().splitlines() == said[:-1]
    path.write_text("raise SystemExit('no device')\n")
    status, said = run(bundle, step)
    assert status == 1 and "no device" in said and f"FAILED {step}: see {step}.log" in said


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5", " "])
def test_no_number_of_jobs(bundle, jobs):
    done = subprocess.run([bundle / "run", "tests", "good"], capture_output=True, text=True, timeout=10,
                          env={**os.environ, "OUT": str(bundle / "logs"), "LIBRARIES": "", "JOBS": jobs})
    assert done.returncode == 2 and f'JOBS is "{jobs}"' in done.stderr and done.stdout == ""


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def with_programs(bundle):
    return {"PATH": f"{bundle / 'path'}:{os.environ['PATH']}"}


SHARED_SUITE = """echo "$1 $CUDA_MPS_PIPE_DIRECTORY" >>"$OUT/started"
case $1:$CUDA_MPS_PIPE_DIRECTORY in
--list:*) echo backend_cache good flaky refused ;;
flaky:/*) echo '[  FAILED  ] test_beside_others'; exit 1 ;;
refused:/*) echo 'skipped: the service has no place left'; exit 77 ;;
bad:*) echo '[  FAILED  ] test_of_numbers'; exit 1 ;;
esac
"""


def test_what_fails_beside_others_runs_again_alone(bundle):
    program(bundle / "bin" / "gpu-suite", SHARED_SUITE)
    program(bundle / "path" / "nvidia-cuda-mps-control", '[ "$1" = -d ] || cat >>"$OUT/service"')
    status, said = run(bundle, "tests", JOBS="3", **with_programs(bundle))
    assert status == 0 and said[-1] == "0 failed"
    assert {"2 failed beside others and run again, alone:",
            "passed alone, and failed beside others (TEST.shared.log): flaky refused",
            "again  refused: skipped: the service has no place left"} <= set(said)
    assert [sum(line.startswith(f"{how}  flaky (") for line in said) for how in ("again", "ok   ")] == [1, 1]
    logs = bundle / "logs"
    assert "test_beside_others" in (logs / "flaky.shared.log").read_text() and (logs / "flaky.log").read_text() == ""
    assert (logs / "service").read_text() == "quit\n"
    started = [line.split(" ") for line in (logs / "started").read_text().splitlines()]
    shared = {name: [bool(folder) for other, folder in started if other == name] for name, _ in started}
    assert shared["good"] == [True] and shared["flaky"] == [True, False] and shared["backend_cache"] == [False]


def test_what_fails_alone_too_has_failed(bundle):
    program(bundle / "bin" / "gpu-suite", SHARED_SUITE)
    program(bundle / "path" / "nvidia-cuda-mps-control", "cat >/dev/null")
    status, said = run(bundle, "tests", "bad", "flaky", **with_programs(bundle))
    assert status == 1 and said[-1] == "1 failed"
    assert sum(line.startswith("FAILED bad (") for line in said) == 1
    assert "passed alone, and failed beside others (TEST.shared.log): flaky" in said


def test_a_service_that_does_not_start(bundle):
    program(bundle / "bin" / "gpu-suite", SHARED_SUITE)
    program(bundle / "path" / "nvidia-cuda-mps-control", "exit 1")
    assert run(bundle, "tests", "bad", "flaky", **with_programs(bundle))[1][-1] == "1 failed"


SANITIZER = """echo "$*" >>"$OUT/started"
tool=$2
for test; do :; done
echo '========= COMPUTE-SANITIZER'
case $tool:$test in
memcheck:centers) echo '========= Invalid __global__ read of size 4 bytes'; echo '========= ERROR SUMMARY: 1 error'; exit 99 ;;
memcheck:solve) echo '========= Invalid __shared__ write of size 8 bytes'; exec sleep 1000 ;;
memcheck:solvers) exec sleep 1000 ;;
memcheck:served) echo '[  FAILED  ] test_of_numbers'; echo '========= Target application returned an error'; exit 1 ;;
racecheck:*) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
*) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
"""


def test_sanitize_tells_how_each_ended(bundle):
    program(bundle / "bin" / "gpu-suite", "echo solvers backend_cache served another products solve centers")
    program(bundle / "path" / "compute-sanitizer", SANITIZER)
    status, said = run(bundle, "sanitize", SANITIZE_S="2", JOBS="4", **with_programs(bundle))
    assert status == 1 and said[-1] == "3 failed"
    assert said[-5:-1] == [
        "clean (7): initcheck:products memcheck:another memcheck:backend_cache memcheck:products "
        "racecheck:backend_cache racecheck:products synccheck:products",
        "cut, nothing found before (1): memcheck:solvers",
        "with findings (2): memcheck:centers memcheck:solve",
        "ended otherwise (1): memcheck:served"]
    started = (bundle / "logs" / "started").read_text().splitlines()
    assert [line.split()[1] + ":" + line.split()[-1] for line in started[-2:]] == [
        "memcheck:backend_cache", "racecheck:backend_cache"]
    assert all(("--report-api-errors no" in line) == ("memcheck" in line) for line in started)


def test_sanitize_ends_in_time(bundle):
    program(bundle / "bin" / "gpu-suite", "echo products solvers backend_cache")
    program(bundle / "path" / "compute-sanitizer", "exec sleep 1000")
    status, said = run(bundle, "sanitize", SANITIZE_TOTAL_S="5", JOBS="2", **with_programs(bundle))
    assert status == 0
    cut = re.fullmatch(r"cut, nothing found before \((\d)\): (.*)", said[-3])
    left = re.fullmatch(r"not begun in 5 s \((\d)\): (.*)", said[-2])
    assert [int(cut[1]), int(left[1])] == [len(cut[2].split()), len(left[2].split())]
    assert sorted([*cut[2].split(), *left[2].split()]) == [
        "initcheck:products", "memcheck:backend_cache", "memcheck:products", "memcheck:solvers",
        "racecheck:backend_cache", "racecheck:products", "synccheck:products"]
    # Those that begin at once; a third one has time only where the machine is not busy.
    assert {"memcheck:products", "racecheck:products"} <= set(cut[2].split())


def test_sanitize_some(bundle):
    program(bundle / "bin" / "gpu-suite", "echo products solvers")
    program(bundle / "path" / "compute-sanitizer", SANITIZER.replace("solvers", "others"))
    assert run(bundle, "sanitize", "solvers", **with_programs(bundle))[1][1:] == ["clean (1): memcheck:solvers", "0 failed"]
    assert run(bundle, "sanitize", "none", **with_programs(bundle))[1][0] == "FAILED sanitize: the suite has no test none"


def test_single_programs(bundle):
    assert run(bundle, "start", "gpu-suite", "good") == (0, ["fine"])
    assert run(bundle, "start", "gpu-suite", "absent")[0] == 77


def test_other_words_are_refused(bundle):
    assert run(bundle, "meditate")[0] == 2
