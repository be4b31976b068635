"""Copies tables of benchmark/results into the pages that show them, so that no number is typed.

    python docs/result_tables.py    # after a benchmark has written new results

A comment says what stands below it, up to the next empty line:

    <!-- table: scaling.md | Training speed by number of ranks -->
    <!-- table: sensitivity.md | Scores of the embedded engine with one rule changed | policy = random -->
    <!-- origin: scaling.md -->

The first is the table of that title as the benchmark wrote it, the second its rows with that value in that column, the
third where and on what it was measured. `tests/test_docs.py` fails where a page and the results differ.
"""

import re
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmark" / "results"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]

BLOCK = re.compile(r"(?P<comment><!-- (?P<kind>table|origin): (?P<what>[^>]+?) -->)\n\n(?P<text>(?:\S.*\n)*)")


def renew(page: str) -> str:
    """The page with its tables as benchmark/results has them now.

    Raises:
        ValueError: for a table, a column or a value that the results do not have.
    """
    return BLOCK.sub(lambda block: f"{block['comment']}\n\n{_contents(block['kind'], block['what'])}\n", page)


def _contents(kind: str, what: str) -> str:
    name, *rest = (part.strip() for part in what.split("|"))
    results = (RESULTS / name).read_text(encoding="utf-8")
    return "\n".join(table(results, *rest)) if kind == "table" else results.split("\n\n")[1]


def table(results: str, title: str, condition: str = "") -> list[str]:
    """Lines of the table below a heading; with a condition "column = value" those rows alone."""
    heading = f"### {title}\n\n"
    if heading not in results:
        raise ValueError(f"there is no table {title!r}: there are {re.findall('^### (.+)', results, re.MULTILINE)}")
    lines = results.split(heading)[1].split("\n\n")[0].rstrip("\n").split("\n")
    if not condition:
        return lines
    column, value = condition.split(" = ")
    place = cells(lines[0]).index(column)
    rows = [line for line in lines[2:] if cells(line)[place] == value]
    if not rows:
        raise ValueError(f"the table {title!r} has no row whose {column} is {value!r}")
    return [*lines[:2], *rows]


def cells(line: str) -> Sequence[str]:
    """The cells of one line of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def main() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        renewed = renew(text)
        if renewed != text:
            page.write_text(renewed, encoding="utf-8")
            print(f"renewed: {page.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
