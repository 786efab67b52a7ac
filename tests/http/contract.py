"""Every answer of the server against api/openapi.yaml.

Importing this makes every session of requests check each answer it receives: the route must be
documented, the status must be documented for it, the Content-Type must be one of those documented
for the status, and a JSON body must fit the schema. An accepted JSON request (2xx) must fit the
contract too, so that the contract is not narrower than the server. `exercised` remembers what was
called.
"""

import functools
import json
import pathlib
import re
from urllib.parse import urlsplit

import jsonschema
import requests
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
TIMEOUT_S = 60  # of a request that names none
METHODS = ("get", "put", "post", "delete", "patch")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# What the HTTP layer itself may answer to any request; the document's introduction lists it.
TRANSPORT = {int(code) for code in re.findall(
    r"\b[45]\d\d\b", DOCUMENT["info"]["description"].split("before its route is asked")[1])}
# Long arrays are checked at both ends: the validator takes some 100 us an item.
ENOUGH_ITEMS = 400

exercised = set()  # (method, template, status)
formats = jsonschema.FormatChecker(formats=())


@formats.checks("date-time", raises=ValueError)
def is_stamp(value):
    return not isinstance(value, str) or STAMP.fullmatch(value) is not None


class ContractError(AssertionError):
    pass


def resolve(node):
    """What a local $ref points at; other nodes are themselves."""
    while isinstance(node, dict) and "$ref" in node:
        pointer = node["$ref"]
        assert pointer.startswith("#/"), pointer
        node = DOCUMENT
        for part in pointer[2:].split("/"):
            node = node[part]
    return node


def operations():
    """{(METHOD, template): operation}."""
    return {
        (method.upper(), template): item[method]
        for template, item in DOCUMENT["paths"].items()
        for method in METHODS
        if method in item
    }


@functools.lru_cache(maxsize=None)
def validator_of(schema_text):
    schema = {"allOf": [json.loads(schema_text)], "components": DOCUMENT["components"]}
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def thinned(value):
    if isinstance(value, list):
        if len(value) > 2 * ENOUGH_ITEMS:
            value = value[:ENOUGH_ITEMS] + value[-ENOUGH_ITEMS:]
        return [thinned(item) for item in value]
    if isinstance(value, dict):
        return {key: thinned(item) for key, item in value.items()}
    return value


def check_schema(schema, value, what):
    checker = validator_of(json.dumps(schema, sort_keys=True))
    error = jsonschema.exceptions.best_match(checker.iter_errors(thinned(value)))
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path)
        raise ContractError(f"{what}: at #/{where}: {error.message}")


def component(name):
    return {"$ref": f"#/components/schemas/{name}"}


def check_event(event):
    check_schema(component("Event"), event, "an event of a stream")


def strict_json(text):
    """JSON without the NaN and Infinity that Python would let through, and without twins."""

    def refuse(constant):
        raise ContractError(f"the answer holds {constant}, which is not JSON")

    def distinct(pairs):
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ContractError(f"the answer repeats a key: {keys}")
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=distinct)


def segment_fits(want, part):
    """A literal, "{x}" for any segment, or "{x}:suffix" for one that ends so."""
    if not want.startswith("{"):
        return want == part
    suffix = want[want.index("}") + 1:]
    return part.endswith(suffix) and len(part) > len(suffix)


def find_template(path):
    """The documented path that fits, literal segments first; None when there is none."""
    parts = path.split("/")
    fitting = []
    for template in DOCUMENT["paths"]:
        wanted = template.split("/")
        if len(wanted) == len(parts) and all(map(segment_fits, wanted, parts)):
            fitting.append(([want.startswith("{") + want.endswith("}") for want in wanted], template))
    return min(fitting)[1] if fitting else None


def check_problem(status, content_type, body, what):
    if content_type != "application/problem+json":
        raise ContractError(f"{what}: an error came as {content_type}: {body[:300]!r}")
    if body is None:
        return
    problem = strict_json(body)
    check_schema(component("Problem"), problem, what)
    if problem["status"] != status or problem["error"] != problem["detail"]:
        raise ContractError(f"{what}: status or error differ within the problem: {problem}")


def check_headers(status, headers, what):
    if not headers.get("X-Request-Id"):
        raise ContractError(f"{what}: no X-Request-Id")
    if status in (429, 503, 507) and not headers.get("Retry-After", "").isdigit():
        if not headers.get("Content-Type", "").startswith("application/json"):
            raise ContractError(f"{what}: no Retry-After")


def check_documented(response, status, headers, content_type, body, what):
    response = resolve(response)
    for name, header in response.get("headers", {}).items():
        if name not in headers and resolve(header).get("required", True):
            raise ContractError(f"{what}: the documented header {name} is missing")
    content = response.get("content", {})
    if not content:
        if body:
            raise ContractError(f"{what}: a body where none is documented: {body[:300]!r}")
        return
    if content_type not in content:
        raise ContractError(f"{what}: {content_type} is not among {sorted(content)}")
    if content_type == "application/problem+json":
        check_problem(status, content_type, body, what)
    elif content_type == "application/json" and body is not None:
        check_schema(content[content_type].get("schema", {}), strict_json(body), what)


def check(method, target, status, headers, body):
    """One answer. `body`: bytes, or None when it was not read (a stream, an answer to HEAD)."""
    parts = urlsplit(target)
    path = (parts.path or "/") if parts.scheme in ("", "http", "https") else target
    what = f"{method} {path} -> {status}"
    content_type = headers.get("Content-Type", "").split(";")[0].strip()
    check_headers(status, headers, what)
    template = find_template(path)
    if method == "OPTIONS" and status == 204:
        if "Access-Control-Allow-Origin" not in headers:
            raise ContractError(f"{what}: 204 answers a browser's preflight alone")
        return None
    operation = operations().get(("GET" if method == "HEAD" else method, template))
    if operation is None:
        expected = {404} if template is None else {405}
        if status not in expected | TRANSPORT:
            raise ContractError(f"{what}: this operation is not documented")
        return check_problem(status, content_type, body, what)
    exercised.add((method, template, status))
    if str(status) in operation["responses"]:
        response = operation["responses"][str(status)]
        return check_documented(response, status, headers, content_type, body, what)
    if status not in TRANSPORT:
        raise ContractError(f"{what}: this status is not documented: {(body or b'')[:300]!r}")
    return check_problem(status, content_type, body, what)


def check_accepted(request):
    """A JSON body that the server took must be allowed by the contract."""
    operation = operations().get((request.method, find_template(urlsplit(request.url).path)))
    body = resolve((operation or {}).get("requestBody", {}))
    schema = body.get("content", {}).get("application/json", {}).get("schema")
    kind = request.headers.get("Content-Type") or "application/json"
    other = not re.match("application/([a-z.+]*json|x-www-form)", kind) \
        or "Content-Encoding" in request.headers
    if schema is not None and request.body and not other:
        check_schema(schema, json.loads(request.body), f"the body of {request.method} {request.url}")


plain_send = requests.Session.send


def checked_send(self, request, **kwargs):
    if kwargs.get("timeout") is None:
        kwargs["timeout"] = TIMEOUT_S
    answer = plain_send(self, request, **kwargs)
    # A body that is read bit by bit is the caller's to check.
    unread = kwargs.get("stream") or request.method == "HEAD"
    check(request.method, request.url, answer.status_code, answer.headers,
          None if unread else answer.content)
    if answer.ok:
        check_accepted(request)
    return answer


# For every request of the suite, requests.get() and its like included.
requests.Session.send = checked_send


class Session(requests.Session):
    """One that no proxy of the environment comes into."""

    def __init__(self):
        super().__init__()
        self.trust_env = False
