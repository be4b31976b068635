"""The numbers of the documentation are those of benchmark/results."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "docs"), str(REPOSITORY / "benchmark")]

import common  # noqa: E402
import result_tables  # noqa: E402

from sc2_envs import ENV_IDS  # noqa: E402

RESULTS = REPOSITORY / "benchmark" / "results"
# pages whose tables hold what was measured; the others' are of rules, flags and published scores
MEASURED = [
    REPOSITORY / name
    for name in (
        "README.md",
        "docs/benchmarks.md",
        "docs/algorithms/a2c.md",
        "docs/algorithms/ppo.md",
        "docs/algorithms/es.md",
        "docs/algorithms/ppo_lstm.md",
    )
]

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
LINK_TO_RESULTS = re.compile(r"\]\(benchmark/results/([\w/]+\.md)\)")
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?::\d\d)?(?!\w)")
COMMIT = re.compile(r"`([0-9a-f]{7,40})`")


def identifier(path):
    return path.relative_to(REPOSITORY).as_posix()


def figures(text):
    return {figure.rstrip(",") for figure in FIGURE.findall(text)}


def unknown_figures(row):
    """Figures and commits of a row that do not stand in the results which it links to."""
    results = (RESULTS / LINK_TO_RESULTS.search(row)[1]).read_text(encoding="utf-8")
    said = re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "", row)
    return (figures(said) - figures(results)) | {commit for commit in COMMIT.findall(row) if commit not in results}


def headlines():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    return [row for table in TABLE.findall(readme) for row in table.splitlines() if LINK_TO_RESULTS.search(row)]


@pytest.mark.parametrize("numbers", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.stem)
def test_tables_and_numbers_of_a_result_agree(numbers):
    content = json.loads(numbers.read_text(encoding="utf-8"))
    text = numbers.with_suffix(".md").read_text(encoding="utf-8")
    assert content["tables"]
    for table in content["tables"]:
        assert common.Table(**table).markdown() in text
    if content["targets"]:
        reached = [target.pop("reached") for target in content["targets"]]
        targets = [common.Target(**target) for target in content["targets"]]
        assert [target.reached for target in targets] == reached
        assert common.Benchmark.target_table(SimpleNamespace(targets=targets)).markdown() in text


@pytest.mark.parametrize("page", result_tables.PAGES, ids=identifier)
def test_tables_of_a_page_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert result_tables.renew(text) == text, (
        f"{identifier(page)} and benchmark/results differ: python docs/result_tables.py"
    )


def test_headline_figures_stand_in_the_results_that_they_link_to():
    assert len(headlines()) >= 5
    for row in headlines():
        assert not unknown_figures(row), row


def test_a_stale_headline_is_seen():
    stale = 0
    for row in headlines():
        for figure in figures(re.sub(r"`[^`]*`", "", row)):
            stale += bool(unknown_figures(row.replace(figure, "98,765.43")))
    assert stale >= 5
    assert unknown_figures("| speed | 76,809 | `0123456789ab`, [throughput](benchmark/results/throughput.md) |")


def test_a_stale_table_is_renewed_and_an_unknown_one_refused():
    comment = "<!-- table: scaling.md | Training speed by number of ranks | ranks = 2 -->"
    renewed = result_tables.renew(f"before\n\n{comment}\n\n| ranks |\n| 3 |\n\nafter\n")
    assert renewed.startswith(f"before\n\n{comment}\n\n| ranks | cores |") and renewed.endswith(" |\n\nafter\n")
    assert len(renewed.splitlines()) == 9
    for wrong in ("no such title", "Training speed by number of ranks | ranks = 77"):
        with pytest.raises(ValueError, match="no "):
            result_tables.renew(f"<!-- table: scaling.md | {wrong} -->\n\n| 1 |\n")


@pytest.mark.parametrize("page", MEASURED, ids=identifier)
def test_every_measured_table_says_which_result_it_is(page):
    text = page.read_text(encoding="utf-8")
    copied = [block["text"] for block in result_tables.BLOCK.finditer(text)]
    for table in TABLE.findall(text):
        if table in copied:
            continue
        for row in table.splitlines():
            measured = re.search(r"\d,\d{3}|\d\.\d|\d:\d\d", re.sub(r"`[^`]*`", "", row))
            assert not measured or LINK_TO_RESULTS.search(row), f"{identifier(page)}: where is this from? {row}"


def test_commands_of_the_trainings_are_on_the_page_of_their_algorithm():
    commands = re.findall(r"`(torchrun [^`]+)`", (RESULTS / "mini_games.md").read_text(encoding="utf-8"))
    page = (REPOSITORY / "docs" / "algorithms" / "a2c.md").read_text(encoding="utf-8")
    assert commands
    for command in commands:
        assert f"\n{command}\n" in page


def test_readme_says_which_environments_were_trained_on():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(SC2\w+-v\d)`\].* \| (yes|no) \|$", readme, re.MULTILINE)
    trained = {run["env_id"] for run in json.loads((RESULTS / "mini_games.json").read_text(encoding="utf-8"))["runs"]}
    assert {env_id for env_id, answer in rows if answer == "yes"} == trained
    assert len(rows) == len(ENV_IDS)
