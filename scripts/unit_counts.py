# SPDX-License-Identifier: MIT
"""Counts the cases of a meson test run: `unit_counts.py BUILD/meson-logs/testlog.json` prints `passed failed skipped`.

A cmocka program sums up each group (`[  PASSED  ] 3 test(s).`); a program without such a line counts as one case, and
one that ends badly without a failed case (a crash, a leak at exit) as one failed case more.
"""
import json
import re
import sys

SUMMARY = re.compile(r"\[ +(PASSED|FAILED|SKIPPED) +\] (?:\S+: )?(\d+) test\(s\)")


def count(test):
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for kind, number in SUMMARY.findall(text):
        counts[kind] += int(number)
    bad = test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")
    if bad and not counts["FAILED"]:
        counts["FAILED"] = 1
    elif not any(counts.values()):
        counts["SKIPPED" if test["result"] == "SKIP" else "PASSED"] = 1
    if bad:
        print(f"--- {test['name']}: {test['result']}\n{text.strip()}", file=sys.stderr)
    return counts["PASSED"], counts["FAILED"], counts["SKIPPED"]


def main():
    with open(sys.argv[1]) as log:
        counts = [count(json.loads(line)) for line in log]
    print(*((sum(column) for column in zip(*counts)) if counts else (0, 0, 0)))


main()
