# Counts test cases in meson's testlog.json: "PASSED SKIPPED FAILED" on one line, and before it a line
# for each program that failed, was skipped or skipped cases. cmocka, pytest and unittest say how many cases they ran;
# any other program counts as one. A program that ended badly counts at least one failure.

def number(pattern): [match(pattern; "g").captures[0].string | tonumber] | add // 0;

# "===== 2 failed, 40 passed in 12.34s =====", with -q without the frame.
def pytest_summary:
    "(?:^|\n)(?:=+ )?([0-9]+ (?:passed|failed|errors?|skipped|deselected|warnings?)[^\n]*) in [0-9.]+s";

def cases:
    ((.stdout // "") + "\n" + (.stderr // "")) as $text | $text |
    if test("\\[==========\\] [0-9]+ test\\(s\\) run") then {
        passed: number("\\[  PASSED  \\] ([0-9]+) test"),
        skipped: number("\\[  SKIPPED \\] ([0-9]+) test"),
        failed: number("\\[  FAILED  \\] ([0-9]+) test")}
    elif test(pytest_summary) then
        ([match(pytest_summary; "g").captures[0].string] | last) | {
            passed: number("([0-9]+) passed"),
            skipped: number("([0-9]+) skipped"),
            failed: (number("([0-9]+) failed") + number("([0-9]+) errors?"))}
    elif test("(^|\n)Ran [0-9]+ tests? in ") then
        (number("(?:^|\n)Ran ([0-9]+) tests? in ")) as $ran |
        (number("failures=([0-9]+)") + number("errors=([0-9]+)")) as $failed |
        number("skipped=([0-9]+)") as $skipped |
        {passed: ($ran - $failed - $skipped), skipped: $skipped, failed: $failed}
    else {passed: 1, skipped: 0, failed: 0} end;

def judged:
    if .result == "OK" or .result == "EXPECTEDFAIL" then cases
    elif .result == "SKIP" then {passed: 0, skipped: 1, failed: 0}
    else cases | if .failed > 0 then . else {passed: ([.passed - 1, 0] | max), skipped, failed: 1} end end;

def reason: ((.stdout // "") | split("\n") | map(select(length > 0)) | last) // "no reason given";

def remark:
    if .result == "SKIP" then "skipped: \(.name): \(reason)"
    elif .result == "OK" or .result == "EXPECTEDFAIL" then
        cases.skipped as $skipped |
        if $skipped > 0 then "skipped: \(.name): \($skipped) of its cases" else empty end
    else "\(.result): \(.name)" end;

[inputs] | (.[] | remark),
    (map(judged) | "\(map(.passed) | add // 0) \(map(.skipped) | add // 0) \(map(.failed) | add // 0)")
