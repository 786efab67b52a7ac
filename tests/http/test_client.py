"""krr, the command line client, against a real daemon."""

import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import termios
import threading

import numpy as np
import pytest
import yaml

import daemon as programs
import data
import handmade
import wait
from fixtures import make_big_spec

KRR = programs.program("KRRD_TEST_CLIENT", "src/client/krr")
MANUAL = programs.ROOT / "src/client/krr.1"
TIMEOUT_S = 120


def run(base, *words, stdin=b"", **more):
    """The finished process; its outputs are bytes."""
    environment = {**os.environ, "KRR_URL": base, **more}
    environment.pop("KRR_KEY", None) if "KRR_KEY" not in more else None
    return subprocess.run([KRR, *map(str, words)], input=stdin, capture_output=True,
                          timeout=TIMEOUT_S, env=environment)


def good(base, *words, **more):
    done = run(base, *words, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def base(shared_daemon):
    return shared_daemon.base


@pytest.fixture
def table(tmp_path):
    """A file houses.csv with the target in its first column."""
    X, y = data.regression(150)
    path = tmp_path / "houses.csv"
    lines = ["price,a,b,c,d"] + [",".join(map(repr, [t, *row])) for t, row in zip(y.tolist(), X.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def features_csv(X, header="a,b,c,d"):
    return "\n".join([header] * bool(header) + [",".join(map(repr, r)) for r in X.tolist()]) + "\n"


def test_predict_takes_the_table_that_was_trained_on(base, tmp_path, name):
    path = tmp_path / "mixed.csv"
    path.write_text("city,size,note,price\n" + "".join(
        f"{['Paris', 'Rome'][i % 2]},{i},{i * 7},{i * 2.5}\n" for i in range(40)))
    good(base, "train", path, "--target", "price", "--one-hot", "-m", name, "-q")
    assert len(good(base, "predict", name, path).splitlines()) == 41
    good(base, "train", path, "--target", "price", "--one-hot", "-m", name, "--features", "size,city=Paris,city=Rome", "-q")
    refusal = run(base, "predict", name, path)
    assert refusal.returncode == 4 and 'no feature "note"' in refusal.stderr.decode()
    assert "--ignore-extra" in refusal.stderr.decode()
    assert len(good(base, "predict", name, path, "--ignore-extra").splitlines()) == 41


def test_blank_lines_of_one_column_are_rows_in_every_piece(base, tmp_path, name):
    """Also those at the border of two pieces, where they lack a value and the model fills in."""
    path, asked = tmp_path / "one.csv", tmp_path / "asked.csv"
    path.write_text("x,y\n" + "".join(f"{i if i else ''},{i * 2.5}\n" for i in range(40)))
    good(base, "train", path, "--missing", "fill", "-m", name, "-q")
    asked.write_text("x\n" + "\n\n7\n" * 400_000)
    assert len(good(base, "predict", name, asked).splitlines()) == 1_200_001
    asked.write_text("7\n\n\n" * 400_000 + "7\n")  # without a header, those in front of a row of a later piece
    assert len(good(base, "predict", name, asked).splitlines()) == 1_200_001


def test_words_that_the_model_does_not_know(base, tmp_path, name):
    path, asked = tmp_path / "cities.csv", tmp_path / "asked.csv"
    path.write_text("city,size,price\n" + "".join(f"{['Paris', 'Rome'][i % 2]},{i},{i * 2.5}\n" for i in range(40)))
    asked.write_text("city,size\nGhent,1\nRome,2\nrome,3\n")
    good(base, "train", path, "--one-hot", "-m", name, "-q")
    refusal = run(base, "predict", name, asked)
    assert refusal.returncode == 4 and "--ignore-unknown" in refusal.stderr.decode()
    answer = run(base, "predict", name, asked, "--ignore-unknown")
    assert answer.returncode == 0 and len(answer.stdout.splitlines()) == 4
    assert "2 values are words that the model was not trained on" in answer.stderr.decode()
    assert json.loads(good(base, "predict", name, asked, "--ignore-unknown", "-j"))["unknown_values"] == 2


def test_columns_are_left_out_of_the_table(base, tmp_path, name):
    path = tmp_path / "dated.csv"
    path.write_text("when,a,who,y\n" + "".join(f"2020-01-{i:02},{i},\"me\n,1,2\",{i * 2.5}\n" for i in range(1, 31)))
    refusal = run(base, "train", path, "-m", name, "--features", "a")
    assert refusal.returncode == 4 and "--ignore COLUMN" in refusal.stderr.decode()
    dataset = good(base, "upload", path, "--ignore", "when,who").strip()
    assert json.loads(good(base, "upload", path, "--ignore", "when", "--ignore", "who", "-j"))["id"] == dataset
    good(base, "train", path, "-m", name, "--ignore", "when,who", "-q")
    assert len(good(base, "predict", name, path, "--ignore-extra").splitlines()) == 31


def test_train_shows_the_way_and_ends_with_metrics(base, table, name):
    done = run(base, "train", table, "--target", "price", "--model", name)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stderr.decode()
    assert re.search(r"ds_\w+: 150 rows, 4 features, regression", said)
    assert "Queued." in said and "Started on" in said
    out = done.stdout.decode()
    assert re.search(rf"model +{re.escape(name)} version 1\n", out)
    assert re.search(r"smape +0\.\d+\n", out) and re.search(r"test_rows +30\n", out)


def test_train_ends_with_the_metrics_of_every_target(base, tmp_path, name):
    path = tmp_path / "many.csv"
    path.write_text("x," + ",".join(f"y{j}" for j in range(20)) + "\n" + "".join(
        ",".join(str(v) for v in [i, *(i * (j + 1) for j in range(20))]) + "\n" for i in range(50)))
    out = good(base, "train", path, "-t", "y0", "-t", "y3", "-m", name, "--features", "x")
    assert re.search(r"\ntarget +smape +rmse +mae +r2\ny0 ( +[0-9.e-]+){4}\ny3 ( +[0-9.e-]+){4}\n$", out), out
    more = [word for j in range(20) for word in ("-t", f"y{j}")]
    out = good(base, "train", path, *more, "-m", name, "--features", "x")
    assert "\ny15 " in out and "\ny16 " not in out
    assert re.search(r"\nmore targets: krr job job_\w+\n$", out)
    out = good(base, "train", path, "-t", "y0", "-m", name, "--features", "x")
    assert "\ntarget " not in out


def test_a_model_on_centers_tells_its_whitened_residual(base, api, table, name):
    """A full model has none, and no line of it."""
    done = run(base, "train", table, "--target", "price", "--model", name, "--solver", "direct")
    assert done.returncode == 0, done.stderr.decode()
    job = api.get("/v1/jobs", params={"model": name}).json()["data"][0]
    assert f"{'whitened_residual':18} {job['result']['whitened_residual']:.4g}\n" in done.stdout.decode()
    done = run(base, "train", table, "--target", "price", "--model", name, "--solver", "cholesky")
    assert "relative_residual" in done.stdout.decode() and "whitened_residual" not in done.stdout.decode()


def test_train_names_the_model_after_the_file(base, table):
    job = json.loads(good(base, "train", table, "-t", "price", "--json", "-q").splitlines()[-1])
    assert job["model"] == "houses" and job["status"] == "succeeded"


def test_every_option_arrives(base, table, name):
    out = good(base, "train", table, "-t", "price", "-m", name, "--json", "-k", "matern32", "-b", 2.5,
               "-r", 1e-5, "-s", "pcg", "--preconditioner", "nystrom_uniform", "--rank", 20,
               "--tolerance", 1e-4, "--max-iterations", 77, "--seed", 3, "--features", "a,c",
               "--precision", "float64", "--test-fraction", 0.5, "--set", "metadata.team=chem")
    spec = json.loads(out.splitlines()[-1])["spec"]
    assert spec["kernel"]["name"] == "matern32" and spec["kernel"]["bandwidth"] == 2.5
    assert spec["regularization"] == 1e-5 and spec["features"] == ["a", "c"]
    assert spec["solver"]["name"] == "pcg" and spec["solver"]["preconditioner"]["rank"] == 20
    assert spec["stop"]["tolerance"] == 1e-4 and spec["stop"]["max_iterations"] == 77
    assert spec["seed"] == 3 and spec["precision"] == "float64"
    assert spec["test"] == {"fraction": 0.5} and spec["metadata"] == {"team": "chem"}


def test_json_gives_every_event_and_then_the_job(base, table, name):
    lines = good(base, "train", table, "-t", "price", "-m", name, "--json").splitlines()
    events, job = [json.loads(line) for line in lines[:-1]], json.loads(lines[-1])
    assert [e["id"] for e in events] == list(range(1, len(events) + 1))
    assert events[-1]["data"]["status"] == "succeeded" and job["object"] == "job"


def test_a_specification_from_a_file_and_a_data_set_that_is_there(base, table, name, tmp_path):
    dataset = good(base, "upload", table, "--target", "price").strip()
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"model": name, "solver": "cholesky", "seed": 5}))
    out = good(base, "train", "--spec", spec, "--dataset", dataset, "--set", "seed=6", "--json")
    job = json.loads(out.splitlines()[-1])
    assert (job["dataset"], job["model"], job["spec"]["seed"]) == (dataset, name, 6)
    assert job["spec"]["solver"]["name"] == "cholesky"


def test_a_table_that_is_there_keeps_its_name_and_who_asks_for_another_is_told(base, table, name, api):
    column = "a"  # a target no other test has: the data set is this test's
    first = good(base, "upload", table, "-t", column, "--name", "first " + name).strip()
    for words in (["upload"], ["train", "-m", name, "--no-wait"]):
        done = run(base, words[0], table, "-t", column, "--name", "second", "-q", *words[1:])
        assert done.returncode == 0
        said = done.stderr.decode()
        assert f"under the name first {name} ({first})" in said and "not called second" in said
    assert api.get(f"/v1/datasets/{first}").json()["name"] == f"first {name}"
    for words in ([], ["--name", "first " + name]):  # nothing that is ignored: nothing to warn of
        done = run(base, "upload", table, "-t", column, *words)
        assert "as first " + name in done.stderr.decode() and b"warning" not in done.stderr


@pytest.mark.parametrize("words", [["--name", "x"], ["--format", "csv"], ["--task", "regression"], ["--one-hot"],
                                   ["--ignore", "a"], ["--missing", "fill"], ["--decimal", "comma"]])
def test_options_of_a_file_without_a_file_are_refused(base, words):
    done = run(base, "train", "--dataset", "ds_1", *words)
    assert done.returncode == 2 and f"{words[0]} is about a file".encode() in done.stderr


def test_a_data_set_that_is_there_is_trained_on_another_target(base, table, name):
    dataset = good(base, "upload", table, "-t", "price").strip()
    job = json.loads(good(base, "train", "-d", dataset, "-t", "b", "-m", name, "--json").splitlines()[-1])
    assert job["spec"]["target"] == "b" and job["status"] == "succeeded"


def test_no_wait_gives_an_id_to_watch(base, table, name):
    job = good(base, "train", table, "-t", "price", "-m", name, "--no-wait").strip()
    assert re.fullmatch(r"job_\w+", job)
    assert re.search(rf"model +{re.escape(name)} version 1", good(base, "watch", job))
    assert json.loads(good(base, "job", job))["status"] == "succeeded"


@pytest.mark.parametrize("words", [["--no-wait"], ["--plan"], []])
def test_a_time_budget_that_is_too_short_is_told_of(base, table, name, words):
    done = run(base, "train", table, "-t", "price", "-m", name, "-s", "pcg", "--time-budget", "1e-6", *words)
    assert done.returncode == (0 if words else 1), done.stderr.decode()
    assert done.stderr.decode().count("may end the job without a model") == 1


def test_refusals_name_the_place_and_have_their_exit_code(base, table, name):
    done = run(base, "train", table, "-t", "price", "-m", name, "--bandwidth", -3)
    assert done.returncode == 4
    assert b"(422)" in done.stderr and b"#/kernel/bandwidth" in done.stderr
    assert re.search(rb"--dataset ds_\w+ instead of", done.stderr)
    done = run(base, "upload", "-", "--format", "csv", stdin=b"a,b\n1,2\n3,x,4\n")
    assert done.returncode == 4 and b"3" in done.stderr
    assert run(base, "job", "job_nothing").returncode == 4
    assert run(base, "jobs", "--status", "asleep").returncode == 4
    assert run(base, "jobs", "--order", "age").returncode == 4


def test_the_queue_is_listed_in_its_order(daemons, table):
    daemon = daemons(workers="cpu:0", serve_workers=0)
    for model, priority in (("low", -1), ("high", 5), ("middle", 0)):
        good(daemon.base, "train", table, "-m", model, "--set", f"priority={priority}", "--no-wait")
    rows = good(daemon.base, "jobs", "--order", "queue").splitlines()[1:]
    assert [row.split()[2] for row in rows] == ["high", "middle", "low"]


def test_wrong_command_lines_end_with_2(base, table):
    for words in ([], ["dance"], ["jobs", "--bogus"], ["watch"], ["train"], ["train", "a", "b"],
                  ["train", table, "--dataset", "ds_x"], ["train", table, "--set", "x"],
                  ["export", "m"], ["load", "m"], ["delete", "m@"], ["delete", ":a"], ["predict", "@3"]):
        assert run(base, *words).returncode == 2, words


@pytest.mark.parametrize("before", [["-u"], ["--url"], ["-q", "-j", "--url"], ["--key-file", os.devnull, "-u"],
                                    ["-ju"], ["-qj", "-u"]])
def test_options_of_every_command_may_stand_before_it(base, before):
    nowhere = "http://127.0.0.1:1"
    assert good(nowhere, *before, base, "jobs") == good(nowhere, "jobs", *before, base)
    assert good(nowhere, f"--url={base}", "models", "-j") == good(nowhere, f"-u{base}", "-j", "models")


def test_what_is_no_option_of_every_command_is_told(base):
    for words, said in ((["-u", base], "not -u"), (["--limit", 3, "jobs"], "not --limit"), (["-x", "jobs"], "not -x"),
                        (["-jx", "jobs"], "not -jx"), (["-u", "-h"], "not -u")):
        done = run(base, *words)
        assert done.returncode == 2 and said in done.stderr.decode()
    assert "usage: krr jobs" in good(base, "-h", "jobs")


def test_a_plan_is_for_people_and_for_programs(base, table, name):
    words = ["train", table, "--target", "price", "-m", name, "--plan", "--solver", "pcg"]
    facts = dict(line.split(None, 1) for line in good(base, *words).replace("time, at most", "time").splitlines())
    assert (facts["model"], facts["train_rows"], facts["test_rows"]) == (name, "120", "30")
    assert facts["solver"].startswith("pcg with ") and " of " in facts["memory"] and facts["time"]
    answer = json.loads(good(base, *words, "--json"))
    assert answer["object"] == "plan" and facts["solver"].startswith("pcg with " + answer["plan"]["preconditioner"])
    assert not any(job["model"] == name for job in json.loads(good(base, "jobs", "-j"))["data"])


def test_what_cannot_be_read_ends_with_6(base, tmp_path):
    assert run(base, "train", tmp_path / "none.csv").returncode == 6
    assert run(base, "upload", tmp_path).returncode == 6
    assert run(base, "train", "--spec", tmp_path / "none.json").returncode == 6


def test_a_server_that_is_not_there_ends_with_3(table):
    done = run("http://127.0.0.1:1", "jobs")
    assert done.returncode == 3 and b"127.0.0.1:1" in done.stderr
    assert run("ftp://127.0.0.1:1", "jobs").returncode == 3


def test_an_answer_of_somebody_else_ends_with_3(tmp_path):
    import http.server

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done = run(f"http://127.0.0.1:{server.server_port}", "jobs")
    server.shutdown()
    assert done.returncode == 3 and b"not JSON" in done.stderr


BAD = "a\x1b]0;b\x07\x9b31m\x7f\nkrr: all is well é"
PLAIN = "a?]0;b??31m??krr: all is well é"


@pytest.fixture
def hostile():
    """hostile(status, type, body): the base of a server that answers everything so."""
    import http.server
    servers = []

    def start(status, kind, body):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        servers.append(http.server.HTTPServer(("127.0.0.1", 0), Other))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_what_a_server_says_does_not_command_the_terminal(hostile, table):
    said = {"detail": BAD, "errors": [{"pointer": BAD, "detail": "x" + BAD}]}
    done = run(hostile(422, "application/problem+json", json.dumps(said).encode()), "job", "job_1")
    assert done.returncode == 4
    assert done.stderr.decode() == f"krr: {PLAIN} (422)\n  {PLAIN}: x{PLAIN}\n"
    thing = {"id": BAD, "state": BAD, "status": BAD, "task": BAD, "warnings": [BAD], "features": [],
             "has_more": True, "last_id": BAD, "data": [{"id": BAD, "status": BAD, "model": BAD}]}
    base = hostile(200, "application/json", json.dumps(thing, ensure_ascii=False).encode())
    for words in (["jobs"], ["cancel", "job_1"], ["load", "m@1"], ["upload", table]):
        done = run(base, *words)
        assert done.returncode == 0 and PLAIN in done.stdout.decode(), words
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", (done.stdout + done.stderr).decode()), words
    for words in (["job", "job_1"], ["import", "m", table]):
        out = good(base, *words)
        assert json.loads(out)["id"] == BAD and "\\u009b" in out and "\\u007f" in out
    event = b"data: " + json.dumps({"type": "message", "message": BAD}).encode() + b"\n\n"
    end = b'data: {"type":"status","data":{"status":"failed"}}\n\n'
    done = run(hostile(200, "text/event-stream", event + end), "watch", "job_1")
    assert done.returncode == 3 and PLAIN in done.stderr.decode() and "not JSON" in done.stderr.decode()


@pytest.mark.parametrize("body", [b"", b"\x1b[31m", b"[1]", b"7", b'"x"', b'{"id":7,"data":{"a":[null]}}',
                                  b'{"data":7,"errors":[7],"detail":"x"}', b"[" * 100000])
def test_answers_of_the_wrong_form_are_survived(hostile, table, body):
    for status in (200, 422):
        base = hostile(status, "application/json", body)
        for words in (["jobs"], ["job", "job_1"], ["models"], ["models", "m"], ["status"], ["health"],
                      ["cancel", "job_1"], ["load", "m@1"], ["upload", table], ["import", "m", table]):
            done = run(base, *words)
            assert 0 <= done.returncode <= 9 and b"Sanitizer" not in done.stderr, done.stderr.decode()
            assert b"\x1b" not in done.stdout + done.stderr
            assert body or done.returncode == 3


def test_a_failed_job_ends_with_1(base, name):
    rows = "\n".join(f"{i % 3},{i % 2}" for i in range(30))  # the same few rows again and again
    done = run(base, "train", "-", "--format", "csv", "-m", name, "-s", "cholesky", "-k", "linear",
               "--regularization", 1e-300, "--precision", "float64", "--set", "max_attempts=1",
               stdin=rows.encode())
    assert done.returncode == 1, done
    assert b"the job is failed" in done.stderr


def test_lists_are_tables_or_json(base, table, name):
    good(base, "train", table, "-t", "price", "-m", name)
    row = next(line for line in good(base, "jobs", "-m", name).splitlines() if name in line)
    assert re.match(r"job_\w+ +succeeded ", row)
    result = json.loads(good(base, "jobs", "-m", name, "--json"))["data"][0]["result"]
    assert f"{result['relative_residual']:.4g}" in row  # also where a search has solved it
    assert json.loads(good(base, "jobs", "-m", name, "--json"))["data"][0]["model"] == name
    assert re.search(r"ds_\w+ +houses.csv +150 +5 ", good(base, "datasets", "--limit", 100))
    assert re.search(rf"{re.escape(name)} +1 +\w+ ", good(base, "models", name))
    assert "serve:0" in good(base, "status")


def test_json_of_every_command(base, api, table, name, tmp_path):
    """One value a line and nothing else, whatever the command."""
    said, model = {}, f"{name}@1"

    def ask(command, *words):
        out = good(base, command, *words, "--json", "-q")
        said[command] = [json.loads(line) for line in out.splitlines()]
        assert said[command], command
        return said[command]

    dataset = ask("upload", table, "-t", "price")[0]["id"]
    job = ask("train", "--dataset", dataset, "-m", name)[-1]["id"]
    assert ask("job", job)[0]["id"] == ask("watch", job)[-1]["id"] == job
    rows = "a,b,c,d\n0,0,0,0\n1,1,1,1\n"
    said["predict"] = [json.loads(line) for line in good(base, "predict", name, "--json", stdin=rows.encode()).splitlines()]
    assert len(said["predict"][0]["predictions"]) == 2
    for command in ("jobs", "datasets", "models", "status", "devices", "health"):
        ask(command)
    ask("load", model), ask("alias", name, "prod", 1), ask("unload", model)
    file = tmp_path / "m.safetensors"
    assert ask("export", model, "-o", file) == [{"output": str(file), "bytes": file.stat().st_size}]
    ask("import", name, file)
    big = api.create(name, **make_big_spec(api), stop={"tolerance": 1e-15, "max_iterations": 10**6})["id"]
    api.wait_running(big)
    ask("pause", big)
    api.wait(big, ("paused",))
    ask("resume", big), ask("cancel", big)
    api.wait(big)
    assert ask("delete", big, f"{name}@2") == [{"deleted": big}, {"deleted": f"{name}@2"}]
    assert set(said) == set(table_of_commands()) - {"completion"}


def test_devices_are_a_table(base, api):
    api.worker_pid("train", "idle")
    head, row = good(base, "devices").splitlines()
    assert row.split()[:4] == ["cpu", "0", "of", "2"] and head.split()[0] == "device"
    assert re.search(r" [0-9.]+ [kMG]\b", row)


def test_pages_are_told_of(base, table):
    for target in "abc":
        good(base, "upload", table, "-t", target)
    done = run(base, "datasets", "--limit", 2)
    after = re.search(rb"more: --after (ds_\w+)", done.stderr).group(1).decode()
    assert after in done.stdout.decode()
    assert after not in good(base, "datasets", "--limit", 2, "--after", after)


def test_predict_turns_a_table_into_a_table(base, api, table, name, tmp_path):
    good(base, "train", table, "-t", "price", "-m", name)
    X, _ = data.regression(7, seed=8)
    file = tmp_path / "new.csv"
    file.write_text(features_csv(X))
    out = good(base, "predict", name, file)
    head, *rows = out.split()
    assert head == "price" and len(rows) == 7
    without = good(base, "predict", f"{name}@1", stdin=features_csv(X, "").encode())
    assert without.split() == rows
    swapped = good(base, "predict", name, "-", stdin=features_csv(X[:, ::-1], "d,c,b,a").encode())
    assert swapped.split()[1:] == rows
    trained_on = good(base, "predict", name, table).split()  # its price is still in it
    assert trained_on[0] == "price" and len(trained_on) == len(table.read_text().splitlines())
    assert [float(r) for r in rows] == api.predict(name, X).json()["predictions"]


def test_predict_tells_how_sure_it_is(base, api, table, name):
    """In every piece of a long table alike; a model that does not know is refused with what to do."""
    process = handmade.regression(2)
    process.put(api, name)
    X = data.regression(20000, seed=10)[0]
    wanted = process.variance(X)
    lines = good(base, "predict", name, "--variance", stdin=features_csv(X, "x0,x1,x2,x3").encode()).split()
    assert lines[0] == "y0,y1,y0_variance,y1_variance" and len(lines) == 20001
    found = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    np.testing.assert_allclose(found[:, 2:], wanted, rtol=1e-9, atol=1e-11)
    assert good(base, "predict", name, stdin=features_csv(X[:1], "").encode()).count(",") == 1
    told = json.loads(good(base, "predict", name, "--variance", "--json", stdin=features_csv(X[:3], "").encode()))
    assert told["variances"] == found[:3, 2:].tolist()
    good(base, "train", table, "-t", "price", "-m", name)
    done = run(base, "predict", name, "--variance", stdin=features_csv(X[:1], "").encode())
    assert done.returncode == 4 and b"kmcg" in done.stderr


def test_predict_takes_tables_longer_than_a_request(base, table, name):
    good(base, "train", table, "-t", "price", "-m", name, "--set", "kernel.name=linear")
    X, _ = data.regression(40000, seed=9)
    text = features_csv(X).encode()
    assert len(text) > 2 << 20
    out = good(base, "predict", name, stdin=text).split()
    assert out[0] == "price" and len(out) == 40001
    few = good(base, "predict", name, stdin=features_csv(X[-5:]).encode()).split()
    assert out[-5:] == few[1:]


@pytest.mark.parametrize("text, lines", [
    (b'"1","2","3","4"\n"5","6","7","8"\n', 2),
    (b"a,b,c,d\r1,2,3,4\r5,6,7,8\r", 3),
    (b'\n"1",2,3,4\n5,6,7,8\n', 2),
    (b"\na,b,c,d\n" + b"1,2,3,4\n" * 200_000, 200_001),
    (b'"1",2,3,4\n' * 200_000, 200_000),
], ids=["quoted", "cr", "blank", "pieces", "bare-pieces"])
def test_predict_tells_rows_from_a_header(base, table, name, text, lines):
    good(base, "train", table, "-t", "price", "-m", name, "--set", "kernel.name=linear")
    assert len(good(base, "predict", name, stdin=text).split()) == lines


def test_predict_says_which_part_is_wrong(base, table, name):
    good(base, "train", table, "-t", "price", "-m", name)
    done = run(base, "predict", name, stdin=b"a,b,c,d\n1,2,3,4\n1,2,oops,4\n")
    assert done.returncode == 4 and b"oops" in done.stderr
    assert run(base, "predict", name, stdin=b"").returncode == 6
    assert run(base, "predict", "no-such-model", stdin=b"1,2,3,4\n").returncode == 4


@pytest.mark.parametrize("write, word", [
    (lambda f: np.savez(f, X=np.ones((2, 4))), "NPZ"),
    (lambda f: np.save(f, np.ones((2, 4))), "NPY"),
    (lambda f: f.write(gzip.compress(b"a,b,c,d\n1,2,3,4\n")), "gunzip -c"),
])
def test_predict_says_that_a_table_is_no_csv(base, tmp_path, write, word):
    with open(tmp_path / "table", "wb") as file:
        write(file)
    done = run(base, "predict", "any", tmp_path / "table")
    assert done.returncode == 6 and word in done.stderr.decode() and b"CSV" in done.stderr


def test_health_is_an_exit_code(base, daemons):
    assert good(base, "health") == "ready\n" and good(base, "health", "--quiet") == ""
    daemon = daemons(workers="cpu:0", serve_workers=0)
    done = run(daemon.base, "health")
    assert done.returncode == 5 and b"training worker" in done.stderr


def test_versions_are_loaded_unloaded_and_deleted(base, table, name):
    good(base, "train", table, "-t", "price", "-m", name)
    assert good(base, "load", f"{name}@1").strip() == "loaded"
    assert good(base, "unload", f"{name}@1").strip() == "unloaded"
    good(base, "delete", f"{name}@1")
    assert run(base, "models", name).returncode == 4


def test_an_alias_and_then_a_whole_model_are_deleted(base, table, name):
    for _ in range(2):
        good(base, "train", table, "-t", "price", "-m", name)
    good(base, "alias", name, "prod", 1)
    refusal = run(base, "delete", name)
    assert refusal.returncode == 4 and f"{name}:prod".encode() in refusal.stderr
    assert run(base, "delete", f"{name}@1").returncode == 4  # the server's own refusal
    assert json.loads(good(base, "delete", f"{name}:prod", "--json")) == {"deleted": f"{name}:prod"}
    assert run(base, "alias", name, "prod").returncode == 4
    assert run(base, "delete", f"{name}:prod").returncode == 4
    good(base, "delete", name)
    for command in ("models", "delete"):
        assert run(base, command, name).returncode == 4
    assert run(base, "delete", f"{name}@").returncode == 2


@pytest.mark.parametrize("content, word", [
    (b"", b"empty"), (b"a,b\n1,2\n" * 9, b"no safetensors file;"), (b"PK\x03\x04" + bytes(60), b"a zip archive"),
    (b"\x1f\x8b\x08" + bytes(60), b"gzip"), (b"\x80\x04\x95" + bytes(60), b"pickle"), (b"\x89HDF\r\n" + bytes(60), b"HDF5"),
])
def test_import_says_what_it_takes(base, tmp_path, name, content, word):
    (tmp_path / "file").write_bytes(content)
    refusal = run(base, "import", name, tmp_path / "file")
    assert refusal.returncode == 4 and word in refusal.stderr and b"safetensors file that an export" in refusal.stderr


def test_import_of_an_onnx_file(base, table, name, tmp_path):
    good(base, "train", table, "-t", "price", "-m", name)
    good(base, "export", f"{name}@1", "-f", "onnx", "-o", tmp_path / "model")
    assert b"an ONNX file" in run(base, "import", name, tmp_path / "model").stderr


def test_an_alias_is_moved(base, table, name):
    good(base, "train", table, "-t", "price", "-m", name)
    good(base, "load", f"{name}@1")
    assert json.loads(good(base, "alias", name, "prod", 1, "--json"))["version"] == 1
    assert json.loads(good(base, "alias", name, "prod", "--json"))["version"] == 1
    for words in ([], ["prod"], ["prod", 1]):
        head, row = good(base, "alias", name, *words).splitlines()
        assert head.split() == ["alias", "version", "moved"] and row.split()[:2] == ["prod", "1"]
    assert "price" in good(base, "predict", f"{name}:prod", stdin=b"a,b,c,d\n1,2,3,4\n")
    assert run(base, "alias", name, "prod", 7).returncode == 4
    assert run(base, "alias", name, "prod", "x").returncode == 2


def start_big_job(daemon, name):
    spec = {**make_big_spec(daemon.api), "model": name, "stop": {"tolerance": 1e-15, "max_iterations": 10**6}}
    return daemon.api.post("/v1/jobs", 202, json=spec).json()["id"]


def watching(base, job):
    process = subprocess.Popen([KRR, "watch", job, "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, "KRR_URL": base})
    first = process.stdout.readline()
    assert json.loads(first)["id"] == 1
    return process


def test_control_c_ends_the_watching_and_not_the_job(daemons, name):
    daemon = daemons()
    job = start_big_job(daemon, name)
    process = watching(daemon.base, job)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130 and f"krr cancel {job}".encode() in said
    assert json.loads(good(daemon.base, "job", job))["status"] in ("queued", "running")
    good(daemon.base, "cancel", job)
    done = run(daemon.base, "watch", job)
    assert done.returncode == 1 and b"cancelled" in done.stderr


def test_watching_outlives_a_restart_without_gap_or_repeat(daemons, name):
    daemon = daemons()
    job = start_big_job(daemon, name)
    process = watching(daemon.base, job)
    daemon.api.wait_running(job)
    daemon.kill()
    port = daemon.base.rsplit(":", 1)[1]
    daemon.start(listen=f"127.0.0.1:{port}")
    wait.until_metric(daemon.api, "krrd_event_listeners", 1)
    daemon.api.wait(job, lambda found: found["attempt"] >= 2)
    good(daemon.base, "cancel", job)
    out = process.stdout.read()  # with what readline has taken in beyond its line
    assert process.wait(TIMEOUT_S) == 1, process.stderr.read()
    *events, ended = [json.loads(line) for line in out.splitlines()]
    assert [e["id"] for e in events] == list(range(2, len(events) + 2))
    assert ended["status"] == "cancelled" and ended["attempt"] >= 2


class Terminal:
    """A program whose standard error is a terminal; `lines` grows with what it shows."""

    def __init__(self, words, base, seen):
        import pty
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "KRR_URL": base})
        os.close(slave)
        self.lines, self.changed, self.over = [], threading.Condition(), False
        self.reader = threading.Thread(target=self.read, args=(master, seen))
        self.reader.start()

    def read(self, master, seen):
        rest = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                piece = b""
            *lines, rest = re.split(rb"[\r\n]", rest + piece)
            with self.changed:
                for line in filter(bytes.strip, lines):
                    self.lines.append((line.decode().strip(), seen()))
                self.over = not piece
                self.changed.notify_all()
            if not piece:
                os.close(master)
                return

    def wait_line(self, fits, begin=0):
        """One that fits, from the line with that number on."""
        with self.changed:
            def found():
                return any(fits(line) for line, _ in self.lines[begin:])
            there = self.changed.wait_for(lambda: self.over or found(), TIMEOUT_S)
            assert there and found(), self.lines[-5:]

    def end(self):
        code = self.process.wait(TIMEOUT_S)
        self.reader.join(TIMEOUT_S)
        return code


def bytes_said(line, what="sending"):
    """(so many, of so many) by a line of the bar, or None."""
    match = re.search(rf"{what} ([0-9.]+) (\w*B) of ([0-9.]+) (\w*B)", line)
    units = {"B": 1, "kB": 1e3, "MB": 1e6}
    return match and (float(match.group(1)) * units[match.group(2)], float(match.group(3)) * units[match.group(4)])


def sent_by(line):
    return (bytes_said(line) or (0, 0))[0]


class Sluice:
    """Lets bytes to a daemon through as far as it is opened, and counts them; answers likewise."""

    def __init__(self, base):
        import socket
        self.open_to, self.passed, self.answers = 0, 0, threading.Event()
        self.turned = threading.Condition()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # little is on its way
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.base = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.there = socket.create_connection(tuple(base.removeprefix("http://").split(":")))
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.take, self.give)]
        self.here = None
        self.threads[0].start()

    def take(self):
        self.listener.settimeout(TIMEOUT_S)
        self.here, _ = self.listener.accept()
        self.threads[1].start()
        while True:
            with self.turned:
                assert self.turned.wait_for(lambda: self.passed < self.open_to, TIMEOUT_S)
            piece = self.here.recv(min(1 << 16, self.open_to - self.passed))
            if not piece:
                return
            self.there.sendall(piece)
            with self.turned:
                self.passed += len(piece)
                self.turned.notify_all()

    def give(self):
        """Answers to the first question at once, to the upload when told."""
        first = True
        while piece := self.there.recv(1 << 16):
            assert first or self.answers.wait(TIMEOUT_S)
            first = False
            self.here.sendall(piece)

    def open(self, bytes_more):
        """Returns once so much has passed."""
        with self.turned:
            self.open_to += bytes_more
            self.turned.notify_all()
            assert self.turned.wait_for(lambda: self.passed == self.open_to, TIMEOUT_S)


# What the sockets on the way may hold: sent as far as the client can know, and not yet here.
IN_FLIGHT = 5e6


def test_the_bar_of_an_upload_is_honest(base, tmp_path):
    """Held against a receiver that takes the table bit by bit: the bar says what has left, comes along with what has
    arrived, and does not end before the answer."""
    path = tmp_path / "big.csv"
    row = ",".join(["0.123456789"] * 20) + "\n"
    path.write_text("".join(f"c{j}," for j in range(19)) + "c19\n" + row * 250000)
    size = path.stat().st_size
    sluice = Sluice(base)
    krr = Terminal([KRR, "upload", path], sluice.base, lambda: sluice.passed)
    step = size // 5
    for i in range(1, 5):
        sluice.open(step)
        krr.wait_line(lambda line: sent_by(line) >= sluice.passed - 2e5, len(krr.lines))
    assert not any("reads it in" in line for line, _ in krr.lines)
    with sluice.turned:
        sluice.open_to = 1 << 40
        sluice.turned.notify_all()
    krr.wait_line(lambda line: f"{size / 1e6:.1f} MB sent; the server reads it in" in line)
    assert krr.process.poll() is None
    krr.wait_line(lambda line: re.search(r"reads it in  [1-9]", line))  # it tells that time goes by
    sluice.answers.set()
    assert krr.end() == 0
    for what in ("looking at", "sending"):
        lines = [line for line, _ in krr.lines if bytes_said(line, what)]
        percents = [int(re.search(r"\] +(\d+) %", line).group(1)) for line in lines]
        assert lines and percents == sorted(percents) and all(p <= 100 for p in percents)
        for line, percent in zip(lines, percents):
            done, whole = bytes_said(line, what)
            assert abs(100 * done / whole - percent) < 1.2, line
    for line, passed in krr.lines:
        assert sent_by(line) <= passed + IN_FLIGHT, (line, passed)
        assert "reads it in" not in line or passed >= size - IN_FLIGHT, (line, passed)


def test_a_refused_upload_ends_early(daemons, tmp_path):
    daemon = daemons(max_upload_bytes=100000)
    path = tmp_path / "big.csv"
    path.write_text("1,2\n" * 200000)
    done = run(daemon.base, "upload", path)
    assert done.returncode == 4 and b"(413)" in done.stderr


def test_time_goes_by_while_a_job_reports_nothing(daemons, name):
    """The worker is stopped: what it said last stays, and the seconds count on."""
    daemon = daemons(worker_lease_s=600)
    job = start_big_job(daemon, name)
    daemon.api.wait_running(job)
    krr = Terminal([KRR, "watch", job], daemon.base, lambda: None)  # the bar leaves the line to the words
    shown = re.compile(r"\d+ % (.* iteration \d+ .*)  (?:(\d+)\.\d s|(\d+):(\d\d))$")

    def seconds(found):
        return int(found[2] or 60 * int(found[3]) + int(found[4]))

    krr.wait_line(shown.search)
    worker = next(w for w in daemon.api.get("/v1/workers").json()["data"] if w["kind"] == "train")["pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        def later(line):
            """The same report as in the first line with it, at least two seconds on."""
            now = shown.search(line)
            before = now and next(m for m in map(shown.search, (text for text, _ in krr.lines)) if m and m.group(1) == now.group(1))
            return now and seconds(now) - seconds(before) >= 2
        krr.wait_line(later)
    finally:
        os.kill(worker, signal.SIGCONT)
    daemon.api.post(f"/v1/jobs/{job}/cancel")
    assert krr.end() == 1


def test_a_search_tells_how_far_it_is(api, base, name):
    X, y = data.regression(2000, d=4)
    job = api.create(name, api.upload_npz(X, y), kernel="gaussian", search={
        "regularization": [1e-8, 1e-7, 1e-6, 1e-5, 1e-4], "bandwidth": [0.5, 1, 2, 4, 8, 16, 32, 64], "folds": 5})
    krr = Terminal([KRR, "watch", job["id"]], base, lambda: None)
    krr.wait_line(re.compile(r"searching at \d+ %  \d+ of 40 pairs  best rmse \d").search)
    assert krr.end() == 0
    assert not any("iteration" in line and "pairs" in line for line, _ in krr.lines)


def table_of_commands():
    text = subprocess.run([KRR, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  (\w+) +\S", text, re.M)


def test_the_manual_has_every_command_and_option():
    manual = MANUAL.read_text().replace("\\-", "-")
    commands = table_of_commands()
    assert "train" in commands and len(commands) > 15
    for command in commands:
        assert re.search(rf"\b{command}\b", manual), command
        help_text = subprocess.run([KRR, command, "--help"], capture_output=True, text=True).stdout
        options = re.findall(r"--([a-z][a-z-]+)", help_text)
        assert "json" in options
        for option in options:
            assert f"--{option}" in manual, (command, option)


def test_completion_is_bash_that_knows_commands_and_options():
    script = subprocess.run([KRR, "completion"], capture_output=True, text=True).stdout
    ask = script + """
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _krr; echo "${COMPREPLY[@]}"; }
        complete_line krr tr
        complete_line krr train --ker
    """
    out = subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.split("\n")
    assert out[0] == "train" and out[1] == "--kernel"


def complete(base, folder, *lines):
    """What bash would offer at the end of each line."""
    script = subprocess.run([KRR, "completion"], capture_output=True, text=True).stdout
    ask = script + """
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _krr; (IFS='|'; echo "${COMPREPLY[*]}"); }
    """ + "\n".join("complete_line krr " + line for line in lines)
    path = f"{pathlib.Path(KRR).parent}:{os.environ['PATH']}"
    out = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=folder,
                         env={**os.environ, "PATH": path, "KRR_URL": base})
    assert out.stderr == ""
    return [line.split("|") if line else [] for line in out.stdout.rstrip("\n").split("\n")]


def schema(contract, name):
    return contract["components"]["schemas"][name]["enum"]


def test_completion_has_the_values_that_the_contract_has(base, tmp_path):
    contract = yaml.safe_load((programs.ROOT / "api/openapi.yaml").read_text())
    formats = contract["components"]["parameters"]["UploadFormat"]["schema"]["enum"]
    offered = complete(base, tmp_path, "train --solver ''", "train -k ''", "train --preconditioner ''",
                       "train --center-method ''", "jobs -s ''", "upload --format ''", "train --task ''",
                       "train --solver pc", "train --solver = eigenpro", "train --solver =")
    assert [sorted(words) for words in offered[:7]] == [sorted(words) for words in (
        schema(contract, "SolverName"), schema(contract, "KernelName"), schema(contract, "PreconditionerName"),
        schema(contract, "CenterSelectorName"), schema(contract, "JobStatus"), formats, schema(contract, "Task"))]
    assert offered[7] == ["pcg"] and offered[8] == ["eigenpro2", "eigenpro3", "eigenpro4"]
    assert sorted(offered[9]) == sorted(schema(contract, "SolverName"))


def test_completion_has_names_of_the_server_and_files(base, table, name, tmp_path):
    good(base, "train", table, "-t", "price", "-m", name)
    (tmp_path / "a b.csv").write_text("")
    job = json.loads(good(base, "jobs", "-m", name, "--json"))["data"][0]["id"]
    offered = complete(base, tmp_path, f"models {name[:-1]}", f"jobs --model {name}", f"watch {job[:-3]}", "upload a",
                       "train --seed ''", f"models -u http://127.0.0.1:1 {name}", "predict --jso")
    assert offered == [[name], [name], [job], ["a b.csv"], [], [], ["--json"]]


def test_completion_finds_the_command_behind_options(base, tmp_path):
    (tmp_path / "ca.pem").write_text("")
    url = "-u http : //127.0.0.1 : 1"  # as bash cuts it
    offered = complete(base, tmp_path, f"{url} train --so", f"{url} trai", "-j train --solver pc", "-qju x train --so",
                       "--key-file jobs train --so", "--url = jobs train --so", "jobs train", "--cac", "--cacert c")
    assert offered == [["--solver"], ["train"], ["pcg"], ["--solver"], ["--solver"], ["--solver"], [], ["--cacert"],
                       ["ca.pem"]]


def test_help_has_the_values_of_options(tmp_path):
    text = " ".join(subprocess.run([KRR, "train", "--help"], capture_output=True, text=True).stdout.split())
    assert "how the system is solved: auto, cholesky, pcg," in text and "arithmetic of the solve: auto, float64," in text


def test_version_and_help():
    assert re.fullmatch(r"krr \d+\.\d+\.\d+\n", subprocess.run([KRR, "--version"], capture_output=True,
                                                              text=True).stdout)
    assert subprocess.run([KRR, "--help"], capture_output=True).returncode == 0
    assert subprocess.run([KRR], capture_output=True).returncode == 2
    for words in (["-h"], ["-u", "http://127.0.0.1:1", "--help"], ["-jh"], ["--help", "-q"]):
        done = subprocess.run([KRR, *words], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("usage: krr COMMAND"), words
