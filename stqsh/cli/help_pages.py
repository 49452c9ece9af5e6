"""The parts of `--help` beyond options: examples, environment, files, exit codes."""

from __future__ import annotations

from collections.abc import Mapping

_ENVIRONMENT = """Environment:
  STQSH_HOME          the folder of the sessions
  STQSH_PROFILE       the profile where --profile is not given
  STQSH_ENGINE_SLOTS  a setting; SHOW SETTINGS lists all of them
  STQSH_INIT          the shell's init file
  STQSH_PAGER, PAGER  the pager for long results; cat for none
  NO_COLOR            no colours"""

_FILES = """Files:
  ~/.local/state/stqsh/sessions     the sessions, one folder each
  ~/.config/stqsh/init.stq          statements that every shell runs first
  profiles/NAME.yaml                the profiles"""

_EXIT_CODES = """Exit codes:
  0 success; 1 failure while running; 2 error in the script or command line;
  130 interrupted"""

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("stqsh", "the shell, in the session `default`"),
        ("stqsh -s work --profile lafayette", "another session, another profile"),
        ("stqsh -c 'SHOW STATUS;'", "one statement"),
        ("stqsh -f night.stq -v day=1 --format csv -o night.csv", "a script"),
    ),
    "run": (
        ("stqsh run sample_data/demo.stq", "tables on a terminal, else JSON lines"),
        ("stqsh run night.stq -v day=1 -o night.parquet", "a file for pandas"),
        ("stqsh run - --format csv", "a script from standard input"),
    ),
    "feed": (
        ("stqsh feed taxis < day.csv", "a file"),
        ("tail -f positions.jsonl | stqsh feed taxis -s work", "as they come"),
        ("stqsh feed taxis day.parquet", "by its name"),
    ),
    "serve": (("stqsh serve work", "for a service manager; Ctrl-C ends it"),),
    "sessions": (("stqsh sessions", ""), ("stqsh sessions --format jsonl", "for a program")),
    "stop": (("stqsh stop", "the session `default`"), ("stqsh stop work", "")),
    "rm": (("stqsh rm work", "what it held is said"), ("stqsh rm --force work trial", "also while in use")),
    "save": (
        ("stqsh save work TO /backup/monday", "a folder"),
        ("stqsh save work TO s3://bucket/monday", "credentials come from the environment"),
    ),
    "restore": (
        ("stqsh restore again FROM /backup/monday", "the session `again` goes on from there"),
        ("stqsh restore again FROM /backup/monday --slots 8", "over eight slots"),
    ),
    "logs": (
        ("stqsh logs -n 20", "the session `default`"),
        ("stqsh logs work", ""),
        ("stqsh logs --follow --json", "for a program"),
    ),
    "map": (
        ("stqsh map", "the session's only stream"),
        ("stqsh map taxis near --to map.html", "a web page that updates itself"),
        ("stqsh map --serve", "the same, on 127.0.0.1"),
    ),
    "demo": (("stqsh demo", "a map on a terminal; JSON lines in a pipe"),),
    "open": (
        ("stqsh open boats.csv", "on the map, then the shell"),
        ("stqsh open districts.geojson 'buses/*.csv.gz'", "regions and a stream"),
        ("stqsh open boats.csv > boats.stq", "a script that opens it"),
    ),
    "tutorial": (("stqsh tutorial", ""),),
    "docs": (("stqsh docs", "the list"), ("stqsh docs language", "one of them")),
    "doctor": (("stqsh doctor", ""), ("stqsh doctor --profile cluster", "for that profile")),
    "pack": (
        ("stqsh pack stqsh.tar.gz", "in a profile: spark.archives: /…/stqsh.tar.gz#stqsh"),
        ("stqsh pack stqsh.tar.gz --with scikit-learn", "what your functions need"),
    ),
    "version": (("stqsh version", ""),),
}
"""Example command lines with their purpose, by command ("" is stqsh itself)."""

_MORE: Mapping[str, tuple[str, ...]] = {
    "": (_ENVIRONMENT, _FILES, _EXIT_CODES),
    "run": (_EXIT_CODES,),
    "doctor": ("Exit codes:\n  0 no problems; 1 problems found",),
}


def page(command: str) -> str:
    r"""Return the end of a command's help, in paragraphs that click does not rewrap (`\b`)."""
    width = max(len(line) for line, _ in EXAMPLES[command])
    lines = [f"  {line:<{width}}  {what}".rstrip() for line, what in EXAMPLES[command]]
    if any(len(line) > _WIDTH for line in lines):
        lines = [
            part
            for line, what in EXAMPLES[command]
            for part in (f"  {line}", f"      {what}")
            if part.strip()
        ]
    examples = "\n".join(["Examples:", *lines])
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in (examples, *_MORE.get(command, ())))


_WIDTH = 76
