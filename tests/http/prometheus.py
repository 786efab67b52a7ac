"""A strict reader of the two text formats: what they do not allow raises."""

import math
import re

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL = re.compile(r'(%s)="((?:[^"\\\n]|\\["\\n])*)"' % NAME)
SAMPLE = re.compile(r"(%s)(?:\{(.*)\})? (\S+)" % NAME)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "info": ("_info",),
            "histogram": ("_bucket", "_sum", "_count")}
UNITS = ("seconds", "bytes")


class Family:
    def __init__(self, name):
        self.name, self.help, self.type, self.unit = name, None, None, None
        self.samples = {}  # (sample name, ((label, value), ...)) -> number


def read_labels(text):
    if not text:
        return ()
    labels, at = [], 0
    while True:
        match = LABEL.match(text, at)
        assert match, f"a malformed label: {text[at:]!r}"
        labels.append(match.groups())
        at = match.end()
        if at == len(text):
            break
        assert text[at] == ",", text
        at += 1
    names = [name for name, _ in labels]
    assert len(set(names)) == len(names), f"a label twice: {text}"
    return tuple(sorted(labels))


def read_number(text):
    assert NUMBER.fullmatch(text), f"no number: {text!r}"
    return float(text.replace("Inf", "inf"))


def read(text, openmetrics):
    """{family name: Family}, by the name in its TYPE line."""
    assert text.endswith("\n") and "\r" not in text and "\n\n" not in text
    lines = text[:-1].split("\n")
    if openmetrics:
        assert lines.pop() == "# EOF"
    families, family = {}, None
    for line in lines:
        head = re.fullmatch(r"# (HELP|TYPE|UNIT) (%s) (.+)" % NAME, line)
        if head:
            kind, name, value = head.groups()
            if kind == "HELP":
                assert name not in families, f"{name} comes twice"
                family = families[name] = Family(name)
            assert family and name == family.name and not family.samples, line
            assert getattr(family, kind.lower()) is None, line
            setattr(family, kind.lower(), value)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"neither a comment nor a sample: {line!r}"
        name, labels, value = match.groups()
        key = (name, read_labels(labels))
        assert key not in family.samples, f"a sample twice: {line}"
        family.samples[key] = read_number(value)
    for family in families.values():
        check(family, openmetrics)
    return families


def check(family, openmetrics):
    assert family.help and family.type in SUFFIXES, vars(family)
    assert openmetrics or family.type != "info"
    unit = family.name.removesuffix("_total").rsplit("_", 1)[-1]
    assert family.unit == (unit if openmetrics and unit in UNITS else None), family.name
    assert family.name.startswith(("krrd_", "process_")), family.name
    allowed = SUFFIXES[family.type]
    if not openmetrics and family.type == "counter":
        assert family.name.endswith("_total")
        allowed = ("",)
    for (name, labels), value in family.samples.items():
        assert name in [family.name + suffix for suffix in allowed], name
        if family.type == "counter":
            assert value >= 0 and math.isfinite(value)
    if family.type == "histogram":
        check_histogram(family)


def check_histogram(family):
    series = {}
    for (name, labels), value in family.samples.items():
        bound = dict(labels).get("le")
        assert (bound is not None) == name.endswith("_bucket"), name
        rest = tuple(pair for pair in labels if pair[0] != "le")
        series.setdefault(rest, {"buckets": []})
        if bound is not None:
            assert "." in bound or "e" in bound or bound == "+Inf", f"{bound} is no canonical number"
            series[rest]["buckets"].append((read_number(bound), value))
        else:
            series[rest][name.rsplit("_", 1)[-1]] = value
    for parts in series.values():
        bounds = [bound for bound, _ in parts["buckets"]]
        counts = [count for _, count in parts["buckets"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, family.name
        assert counts == sorted(counts) and counts[-1] == parts["count"], family.name
        assert parts["sum"] >= 0


class Page:
    """What /metrics said; by the names of samples."""

    def __init__(self, families):
        self.families = families
        self.samples = {}
        for family in families.values():
            self.samples.update(family.samples)

    def value(self, name, **labels):
        return self.samples.get((name, tuple(sorted(labels.items()))), 0.0)

    def total(self, name, **labels):
        """The sum over all samples that have these labels."""
        wanted = set(labels.items())
        return sum(value for (sample, found), value in self.samples.items()
                   if sample == name and wanted <= set(found))


def scrape(api, openmetrics=False, headers=None):
    accept = "application/openmetrics-text;version=1.0.0" if openmetrics else "text/plain"
    answer = api.get("/metrics", headers={"Accept": accept, **(headers or {})})
    kind = answer.headers["Content-Type"]
    assert kind == ("application/openmetrics-text; version=1.0.0; charset=utf-8" if openmetrics
                    else "text/plain; version=0.0.4; charset=utf-8")
    return Page(read(answer.text, openmetrics))
