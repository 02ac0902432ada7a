#!/usr/bin/env python3
"""Writes the table of docs/settings.md from the program's own: `hvdrun --help-settings`.

    python docs/write_settings.py            # renews the table
    python docs/write_settings.py --check    # ends with an error if the table is stale

hvdrun is the one in PATH.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).with_name("settings.md")
BEGIN, END = "<!-- settings begin -->\n", "<!-- settings end -->\n"
RANKS = {"the same on all ranks": "same", "that of rank 0": "rank 0",
         "each rank has its own": "own"}
ROW = re.compile(r"(?P<name>\w+)=(?P<default>.*)\n    (?P<meaning>.*)\n    value: (?P<ranks>.*)\n"
                 r"    from: default\n")


def settings_of_the_program():
    """What hvdrun prints where no setting has another value than its default."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("HOROVOD_", "HVD_"))}
    return subprocess.run(["hvdrun", "--help-settings"], env=environment, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def table(text):
    rows = list(ROW.finditer(text))
    if "".join(row[0] for row in rows) != text:
        sys.exit(f"write_settings.py: not understood, expected rows such as {ROW.pattern}:\n{text}")
    lines = ["| variable | default | ranks | meaning |", "|---|---|---|---|"]
    for row in rows:
        default = f"`{row['default']}`" if row["default"] else ""
        meaning = row["meaning"].replace("<", "&lt;").replace("|", "\\|")
        lines.append(f"| `{row['name']}` | {default} | {RANKS[row['ranks']]} | {meaning} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    renewed = before + BEGIN + table(settings_of_the_program()) + END + rest.split(END)[1]
    if check and renewed != page:
        sys.exit("docs/settings.md is stale; renew it: python docs/write_settings.py")
    if not check:
        PAGE.write_text(renewed, encoding="utf-8")


if __name__ == "__main__":
    main()
