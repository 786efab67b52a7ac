"""The dashboard's pure functions, imported by a page of the daemon's own origin."""

import pytest


def call(page, module, expression, *args):
    page.open()
    return page.module(f"const m = await import('/ui/{module}.js'); return ({expression});", *args)


def test_numbers(page):
    values = [0, 1, 12, 3.14159265, 1234.5678, 0.001234, 0.000123456, -2.5e-9, 1e6, 123456789, None]
    assert call(page, "format", "args[0].map((v) => m.number(v))", values) == [
        "0", "1", "12", "3.142", "1235", "0.001234", "1.23e-4", "-2.50e-9", "1.00e6", "1.23e8", "–"]
    assert call(page, "format", "[NaN, Infinity, undefined].map((v) => m.number(v))") == ["–"] * 3
    assert call(page, "format", "args[0].map(m.integer)", [0, 999, 1234567, None]) == [
        "0", "999", "1,234,567", "–"]


def test_sizes_and_rates(page):
    assert call(page, "format", "args[0].map(m.bytes)", [0, 1023, 1024, 10 * 2**20, 3 * 2**40, None]) == [
        "0 B", "1023 B", "1.00 KiB", "10.0 MiB", "3.00 TiB", "–"]
    assert call(page, "format", "args[0].map((v) => m.rate(v))", [950, 1.5e9, 2.34e12, None]) == [
        "950/s", "1.50 G/s", "2.34 T/s", "–"]


def test_durations(page):
    assert call(page, "format", "args[0].map(m.duration)",
                [0, 1e-5, 0.012, 0.5, 9.94, 9.96, 59.4, 59.6, 3599, 3600, 86400 * 2, 1e6, None]) == [
        "0 ms", "< 1 ms", "12 ms", "0.5 s", "9.9 s", "10 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min",
        "2 d 0 h", "11 d 13 h", "–"]


def test_what_is_left_is_said_only_where_it_is_known(page):
    assert call(page, "format", "args[0].map(m.remaining)", [None, -1, 0, 0.001, 0.99, 1, 3.2, 59.4, 59.6, 3600]) == [
        "", "", "under 1 s left", "under 1 s left", "under 1 s left", "1 s left", "3 s left", "59 s left",
        "1 min 00 s left", "1 h 00 min left"]
    assert call(page, "format", "[NaN, Infinity, undefined].map(m.remaining)") == [""] * 3


def test_the_time_of_a_job(page):
    """Time left while it runs and the server says so; else for how long it has run."""
    now = 1_700_000_000_000
    job = {"status": "running", "started_at": "2023-11-14T22:13:10Z"}  # ten seconds before
    cases = [{**job, "progress": {"eta_s": 12.3}}, {**job, "progress": {"eta_s": None}}, job,
             {**job, "status": "cancelling", "progress": {"eta_s": 12.3}},
             {**job, "status": "paused", "progress": {"eta_s": 12.3}},
             {**job, "status": "succeeded", "progress": {"eta_s": 12.3}, "result": {"seconds": 2.5}}]
    assert call(page, "job_words", "args[0].map((job) => m.when(job, args[1]))", cases, now) == [
        "12 s left", "for 10 s", "for 10 s", "for 10 s", "", "took 2.5 s"]


def test_how_far_a_search_is(page):
    """And what it has come to; nothing once the job has ended, whose result has the whole search."""
    best = {"regularization": 1e-6, "bandwidth": 2.5, "value": 0.3125}
    search = {"tried": 1200, "pairs": 3000, "metric": "rmse", "best": best}
    cases = [{"status": status, "progress": {"search": found}} for status, found in [
        ("running", search), ("running", {**search, "best": {**best, "bandwidth": None}}),
        ("running", {**search, "tried": 0, "best": None}), ("running", None), ("succeeded", search)]]
    assert call(page, "job_words", "args[0].map((job) => m.searched(job))", cases + [{"status": "queued"}]) == [
        [["Pairs tried", "1,200 of 3,000"], ["Best RMSE", "0.3125 at λ 1.00e-6 a row, bandwidth 2.5"]],
        [["Pairs tried", "1,200 of 3,000"], ["Best RMSE", "0.3125 at λ 1.00e-6 a row"]],
        [["Pairs tried", "0 of 3,000"], ["Best RMSE", None]], [], [], []]


def test_values_beside_an_axis_are_short(page):
    assert call(page, "format", "args[0].map(m.tick)", [0, 0.25, -3, 9999, 10000, 250000, -1.5e6, 2e9, 1e15]) == [
        "0", "0.25", "-3", "9999", "10k", "250k", "-1.5M", "2G", "1.00e15"]


def test_the_name_of_a_model_from_that_of_its_data(page):
    names = ["houses", "my table (1).csv", "__x", "Größe-2", "", "a" * 200]
    assert call(page, "view_new", "args[0].map(m.modelName)", names) == [
        "houses", "my_table_1_", "x", "Gr_e-2", "", "a" * 64]


def test_powers_of_ten(page):
    assert call(page, "format", "args[0].map(m.power)", [1, 10, 0.001, 1e-12, 2e-5]) == [
        "10⁰", "10¹", "10⁻³", "10⁻¹²", "2e-5"]


@pytest.mark.parametrize("cut", [1, 3, 7, 1000])
def test_events_in_pieces(page, cut):
    stream = (": connected\n\nid: 1\nevent: status\ndata: {\"a\":\ndata: 1}\n\n: still there\n\n"
              "retry: 5\n\nid: 2\nevent: metrics\ndata: {}\n\ndata: unfinished")
    events = call(page, "sse", """(() => {
        const seen = [];
        const feed = m.parser((event) => seen.push(event));
        for (let at = 0; at < args[0].length; at += args[1]) feed(args[0].slice(at, at + args[1]));
        return seen;
    })()""", stream, cut)
    assert events == [{"id": "1", "type": "status", "data": '{"a":\n1}'},
                      {"id": "2", "type": "metrics", "data": "{}"}]


def test_series_stay_short_and_keep_the_newest(page):
    length, first, last, ascending = call(page, "series", """(() => {
        const s = new m.Series(100);
        for (let i = 0; i < 12345; i++) s.add({iteration: i, relative_residual: 1 / (i + 1)});
        const all = s.curve("relative_residual", "iteration", true);
        return [all.length, all[0].x, all.at(-1).x,
                all.every((p, i) => i === 0 || p.x > all[i - 1].x)];
    })()""")
    assert 50 <= length <= 101 and (first, last, ascending) == (0, 12344, True)


def test_logarithmic_curves_leave_out_what_has_no_logarithm(page):
    points = call(page, "series", """(() => {
        const s = new m.Series();
        [[1, 0.5], [2, 0], [3, null], [4, -1], [5, 0.25]].forEach(([iteration, smape]) => s.add({iteration, smape}));
        return [s.curve("smape", "iteration", true), s.curve("smape", "iteration", false).length];
    })()""")
    assert points == [[{"x": 1, "y": 0.5}, {"x": 5, "y": 0.25}], 4]


def test_points_of_test_rows(page):
    """A prediction beyond float64 is null in the sample: no point, rather than one at zero."""
    one = {"truth": [1, 2, 3], "predictions": [1.5, None, 0]}
    two = {"truth": [[1, 2], [3, 4]], "predictions": [[None, 2.5], [3.5, 4.5]]}
    points = call(page, "plots", "[m.pointsOf(args[0], 0), m.pointsOf(args[1], 0), m.pointsOf(args[1], 1)]", one, two)
    assert [[(p["truth"], p["predicted"]) for p in part] for part in points] == [
        [(1, 1.5), (3, 0)], [(3, 3.5)], [(2, 2.5), (4, 4.5)]]
