"""The dashboard's files: what is served and under which policy. What they do: tests/browser."""

import pathlib
import re

import pytest

import contract
import daemon as daemon_module

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = sorted(p.name for p in (ROOT / "web").iterdir() if p.suffix in (".js", ".css", ".html", ".svg"))
NO_WORKERS = {"workers": "cpu:0", "serve_workers": 0}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    daemon = daemon_module.Daemon(tmp_path_factory.mktemp("quiet"), **NO_WORKERS)
    yield daemon
    daemon.close()


def directives(answer):
    parts = answer.headers["Content-Security-Policy"].split(";")
    return {words[0]: words[1:] for words in map(str.split, parts)}


@pytest.mark.parametrize("name", WEB)
def test_every_file_is_served_as_it_is(quiet, name):
    answer = quiet.api.get(f"/ui/{name}", headers={"Accept-Encoding": "identity"})
    assert answer.content == (ROOT / "web" / name).read_bytes()
    assert "Content-Encoding" not in answer.headers
    packed = quiet.api.get(f"/ui/{name}", headers={"Accept-Encoding": "gzip"})
    assert packed.content == answer.content
    assert packed.headers["Vary"] == "Accept-Encoding"
    if "Content-Encoding" in packed.headers:
        assert packed.headers["Content-Encoding"] == "gzip"
        assert int(packed.headers["Content-Length"]) < 0.9 * len(answer.content)
        assert packed.headers["ETag"] != answer.headers["ETag"]


def test_the_page(quiet):
    answer = quiet.api.get("/")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.content == (ROOT / "web" / "index.html").read_bytes()
    for link in re.findall(r'(?:href|src)="(/[^"]+)"', answer.text):
        assert quiet.api.get(link).content, link


def test_the_icon_that_browsers_ask_for(quiet):
    answer = quiet.api.get("/favicon.ico")
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.content == quiet.api.get("/ui/icon.svg").content


@pytest.mark.parametrize("path", ["/", "/ui/main.js", "/ui/style.css", "/ui/chart.min.js"])
def test_policy(quiet, path):
    answer = quiet.api.get(path)
    policy = directives(answer)
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert not re.search("unsafe|http|\\*", answer.headers["Content-Security-Policy"])
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_browser_asks_whether_its_copy_is_right(quiet, encoding):
    first = quiet.api.get("/ui/style.css", headers={"Accept-Encoding": encoding})
    assert first.headers["Cache-Control"] == "no-cache"
    again = quiet.api.get("/ui/style.css", expect=304, headers={
        "Accept-Encoding": encoding, "If-None-Match": first.headers["ETag"]})
    assert again.content == b"" and again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Content-Length"] == first.headers["Content-Length"]
    quiet.api.get("/ui/style.css", headers={"If-None-Match": '"0123"'})


@pytest.mark.parametrize("name", ["nothing.js", "..%2fmain.js", "main.js%2f", "MAIN.JS"])
def test_no_such_file(quiet, name):
    quiet.api.get(f"/ui/{name}", expect=404)


def test_the_page_holds_no_script_or_style_of_its_own():
    page = (ROOT / "web" / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|javascript:", page)


@pytest.mark.parametrize("name", [n for n in WEB if n.endswith(".js")])
def test_scripts_make_no_markup_of_strings(name):
    text = (ROOT / "web" / name).read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
                         r"DOMParser|createContextualFragment|srcdoc|https?://(?!www\.w3\.org/)", text)


def test_files_are_small_and_listed():
    listed = (ROOT / "web" / "meson.build").read_text()
    for name in WEB:
        assert f"'{name}'" in listed, name
        assert len((ROOT / "web" / name).read_text().splitlines()) <= 320, name


def test_the_contract_as_a_page(quiet):
    answer = quiet.api.get("/docs")
    page = answer.text
    assert "<script" not in page and " style=" not in page
    for (method, path), operation in contract.operations().items():
        assert f'id="{operation["operationId"]}"' in page, (method, path)
        assert f"<code>{path}</code>" in page, path
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    assert {f"schema-{name}" for name in contract.DOCUMENT["components"]["schemas"]} <= ids
    for link in re.findall(r'(?:href|src)="(/[^"]*)"', page):
        assert quiet.api.get(link).content, link
