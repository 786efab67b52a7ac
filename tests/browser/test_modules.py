"""The dashboard's pure functions, imported by a page of the daemon's own origin."""

import pathlib
import re

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


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


def parsed(page, cases):
    """Of each (text, lacks): the rows of the features a, b and c, or the words that refuse them."""
    return call(page, "rows", """args[0].map(([text, lacks]) => {
        try {
            return m.parseRows(text, ["a", "b", "c"], lacks);
        } catch (error) {
            if (error instanceof m.RowsError) return error.message;
            throw error;
        }
    })""", cases)


def check(page, lacks, expected):
    assert dict(zip(expected, parsed(page, [(text, lacks) for text in expected]))) == expected


def test_a_key_that_is_not_there_is_refused(page):
    """Also of a model that fills in what is missing: it is misspelt more often."""
    null = " A value that is missing is null."
    for lacks, more in ((True, null), (False, "")):
        check(page, lacks, {
            '[{"aa": 1, "bb": 2}]': "Row 1: the column “a” is missing." + more,
            '[{"c": 3, "b": 2, "a": 1}, {"a": 1, "b": 2}]': "Row 2: the column “c” is missing." + more,
            "[{}]": "Row 1: the column “a” is missing." + more,
            "{}": "Row 1: the column “a” is missing." + more,
            '{"rows": [[1, 2, 3]]}': "Row 1: the column “a” is missing." + more,
            "[[1, 2, 3], null]": "Row 2 is neither an array nor an object.",
            '[{"a": 1, "b": 2, "c": 3}, 5, "x"]': "Row 2 is neither an array nor an object.",
            "[[1, 2]]": "Row 1 has 2 values, not 3.",
            "[[1, 2, true]]": "Row 1: “true” is no number.",
            "[[1, 2, []]]": "Row 1: “[]” is no number.",
            "[[1, 2, {}]]": "Row 1: “{}” is no number.",
        })
    words = ["constructor", "toString"]
    assert call(page, "rows", "(() => { try { m.parseRows('{}', args[0], true); } catch (e) { return e.message; } })()",
                words) == "Row 1: the column “constructor” is missing." + null


def test_decimal_commas_are_named(page):
    check(page, False, {"a;b;c\n1;2,5;3": "Line 2: “2,5” is no number. It has a decimal comma: numbers take a point here.",
                        "a;b;c\n1;2,5,1;3": "Line 2: “2,5,1” is no number."})


def test_null_is_missing(page):
    expected = {'[{"a": 1, "b": null, "c": 3}]': [[1, None, 3]], "[[null, 2, 3], [null, null, null]]": [[None, 2, 3], [None] * 3],
                "[1, null, 3]": [[1, None, 3]], '{"instances": [{"c": "NA", "b": "", "a": "1"}]}': [[1, None, None]]}
    check(page, True, expected)
    assert all("is no number." in one for one in parsed(page, [(text, False) for text in expected]))


def worded(page, text, lacks=False, passing=False):
    """The rows of a model of cities, and what it was told of words that it does not know; or why not."""
    return call(page, "rows", """(() => {
        const told = [];
        const [text, lacks, passing] = args[0];
        try {
            const rows = m.parseRows(text, ["size", "city=Paris", "city=Rome", "a=b"], lacks, passing ? (why) => told.push(why) : undefined);
            return [rows, told];
        } catch (error) {
            if (error instanceof m.RowsError) return error.message;
            throw error;
        }
    })()""", [text, lacks, passing])


def test_columns_of_words(page):
    """As the table had them: a column “city”; a feature “a=b” is a column as it is, or of words, too."""
    rome, ghent = "city,a=b,size\nRome,5,1\n Paris ,6,2", '[{"size": 1, "city": "Ghent", "a": "b"}]'
    assert worded(page, rome) == [[[1, 0, 1, 5], [2, 1, 0, 6]], []]
    assert worded(page, '{"city": "Rome", "a": "b", "size": 1}') == [[[1, 0, 1, 1]], []]
    why = "Row 1: the model does not know the word “Ghent” of the column “city”."
    assert worded(page, ghent) == why
    assert worded(page, ghent, passing=True) == [[[1, 0, 0, 1]], [why]]
    assert worded(page, "city;a;size\nrome;c;1\n", passing=True)[0] == [[1, 0, 0, 0]]
    assert len(worded(page, "city;a;size\nrome;c;1\n", passing=True)[1]) == 2
    assert worded(page, "city,a=b,size\n,5,1") == "Line 2: “” is no word."
    assert worded(page, "city,a=b,size\n,5,1", passing=True) == "Line 2: “” is no word."
    assert worded(page, "city,a=b,size\n,5,1\nNA,5,1", lacks=True) == [[[1, None, None, 5]] * 2, []]
    assert worded(page, '[{"size": 1, "city": 3, "a": "b"}]') == "Row 1, “city”: “3” is no word."
    assert worded(page, "city,size\nRome,1") == "The column “a=b” is missing."
    assert worded(page, "city,a,size\nRome,1") == "Line 2 has 2 values, not 3."


def test_cells_of_a_spreadsheet_may_be_empty(page):
    """Copied, they have tabs between them: those at the ends are cells, and lines of nothing else are rows."""
    check(page, True, {
        "a\tb\tc\n\t2\t3\n1\t2\t": [[None, 2, 3], [1, 2, None]],
        "a\tb\tc\r\n\t2\t3\r\n1\t\t\r\n": [[None, 2, 3], [1, None, None]],
        "\t2\t3\n1\t2\t3": [[None, 2, 3], [1, 2, 3]],
        "1\t2\t3\n\t\t\n4\t5\t6\n\t\t\n": [[1, 2, 3], [None] * 3, [4, 5, 6]],
        "\t\t\n1\t2\t3": [[1, 2, 3]],
        "\t\t\na\tb\tc\n1\t2\t3\n\t\t": [[1, 2, 3]],
        "c\tid\tb\ta\n3\t\t\t1\n\t\t\t": [[1, None, 3]],
        "\n\n1,2,\n\t \n,,\n\n4,5,6\n": [[1, 2, None], [None] * 3, [4, 5, 6]],
        "1\t2": "Line 1 has 2 values, not 3.",
        "\n1\t2\t3\n\n1\t2": "Line 4 has 2 values, not 3.",
        "\t\n \n": "There are no rows.",
    })
    check(page, False, {
        "a\tb\tc\n1\t2\t3\n\n4\t5\t6\n": [[1, 2, 3], [4, 5, 6]],
        "1\t2\t3\n\t\t\n": [[1, 2, 3]],
        "a\tb\tc\n\t2\t3": "Line 2: “” is no number.",
        "1\t2\t3\n\t\t\n4\t5\t6": "Line 2: “” is no number.",
        "  1,2,3\n\t4,5,6\n": [[1, 2, 3], [4, 5, 6]],
    })


def marks():
    listed = re.search(r"marks\[\] = \{(.*?)\}", (SOURCE / "src/wire/missing.c").read_text(), re.S).group(1)
    return re.findall(r'"(.*?)"', listed)


def test_what_is_missing_is_the_list_of_the_server(page):
    listed = marks()
    assert len(listed) > 9 and "NA" in listed
    others = ["na", "none", "-", "NAN", "0", "NAs", "N", "x"]
    assert call(page, "rows", "args[0].map(m.isMissing)", ["", " ", *listed, f" {listed[0]} ", *others]) == (
        [True] * (len(listed) + 3) + [False] * len(others))
    check(page, True, {f"{mark},2,3\n1, {mark} ,\"{mark}\"\na,b,c" if i % 2 else f"a,b,c\n{mark},2,3": (
        "Line 3: “a” is no number." if i % 2 else [[None, 2, 3]]) for i, mark in enumerate(listed)})
    check(page, True, {f"{mark};2;3\n1;{mark};{mark}": [[None, 2, 3], [1, None, None]] for mark in listed})
    check(page, True, {"NA,NA,?\n1,2,3": [[None] * 3, [1, 2, 3]], "1,2,na": "The column “a” is missing.",
                       "1,2,3\n1,2,-": "Line 2: “-” is no number."})
    check(page, False, {f"1,2,3\n{mark},2,3": f"Line 2: “{mark}” is no number." for mark in listed})


def test_a_first_line_of_values_names_no_columns(page):
    """Where the names of a file's columns are offered as targets."""
    cases = ["a,b,y", "1,2,3", "NA,2,3", ",2,?", "NA,DE,y"]
    assert page.open().module("""const [u, r] = [await import("/ui/upload.js"), await import("/ui/rows.js")];
        return Promise.all(args[0].map((text) => u.columnsOf(new File([text + "\\n4,5,6\\n"], "x.csv"),
            (line) => r.cells(line, r.separatorOf(line)))));""", cases) == [["a", "b", "y"], [], [], [], ["NA", "DE", "y"]]
