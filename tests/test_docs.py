"""The docs name what exists.  Their examples are run as doctests (see pyproject.toml)."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import matplotlib
import pytest

from batchsvm.cli import main
from batchsvm.losses import LOSSES

ROOT = Path(__file__).parent.parent
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
GALLERY = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
STATEMENTS = (ROOT / "docs" / "maths.md").read_text()


def references():
    """Each `file.py` and `file.py::name` of docs/maths.md."""
    return sorted(set(re.findall(r"`((?:\w+/)?\w+\.py)(?:::(\w+))?`", STATEMENTS)))


@pytest.mark.parametrize(("file", "name"), references())
def test_what_the_maths_page_names_exists(file, name):
    folder = ROOT / "tests" if file.startswith("test_") else ROOT / "src" / "batchsvm"
    text = (folder / file).read_text()
    assert not name or re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE)


def test_the_maths_page_maps_every_statement():
    for statement in [
        "Algorithm 1", "Algorithm 2", "Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4",
        "Theorem 1", "Theorem 2", "(regSVM)", "(dualSVM)", "(Qii)", "(walpha)", "(9s9js9skk)",
        "(ft)", "(nablat)", "(9sjs8)", "(pegasosUpdate)", "(sigma_sq)", "(betab)", "(hs8js8s)",
        "(js8sjs800)", "(alphai)", "(MBalphai)", "(Ddelta)", "(H)", "(dualityRequirements)",
        "averageDefinition", "(sdcaspeedup)", "(deltaQdelta)", "(H_definition)", "(dualityGap)",
        "(relationOfDualDecreaseAndDualityGap)", "(defOfG)", "(expectedBound)", "(t0)", "(T0)",
        "(T)", "(rhsofbound)",
    ]:  # fmt: skip
        assert statement in STATEMENTS, statement


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_room_is_on_the_map():
    text = (ROOT / "docs" / "design.md").read_text()
    for source in (ROOT / "src" / "batchsvm").rglob("*.py"):
        if source.name != "__init__.py":
            assert source.name in text, source.name


def test_every_loss_is_in_the_table():
    text = (ROOT / "docs" / "add_a_loss.md").read_text()
    for name in LOSSES:
        assert f"| `{name}` |" in text


@pytest.mark.parametrize("example", GALLERY, ids=lambda path: path.stem)
def test_gallery_examples_run(example, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.delenv("BATCHSVM_DATA", raising=False)
    runpy.run_path(str(example))
    assert matplotlib.pyplot.get_fignums()
    matplotlib.pyplot.close("all")


def test_commands_in_the_docs_work(tmp_path, monkeypatch, capsys):
    """Each line `batchsvm ...` of a code block, once, in one folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BATCHSVM_DATA", raising=False)
    blocks = [
        block for page in DOCS for block in re.findall(r"```\n(.*?)```", page.read_text(), re.S)
    ]
    lines = re.findall(r"^batchsvm .*?(?=  #|$)", "\n".join(blocks), re.MULTILINE)
    lines.sort(key=lambda line: " data get " not in line)  # the sort keeps the order otherwise
    assert len(lines) > 5
    for line in dict.fromkeys(lines):
        with pytest.raises(SystemExit) as left:
            main(shlex.split(line)[1:])
        assert left.value.code == 0, (line, capsys.readouterr().err)


def test_numbers_that_the_quick_start_tells_are_those_it_prints():
    """Its code is run as doctests; what is said around it must not fall behind."""
    text = (ROOT / "docs" / "quick_start.md").read_text()
    code = "\n".join(re.findall(r"```.*?```", text, re.S))
    told = re.findall(r"\d+\.\d+", re.sub(r"```.*?```", "", text, flags=re.S))
    for number in told:
        assert number in code, number


def test_every_page_is_in_the_contents():
    contents = (ROOT / "docs" / "index.md").read_text().split()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or page.stem in contents, page


def test_what_shows_a_feature_exists():
    text = (ROOT / "README.md").read_text()
    named = re.findall(r"`(test_\w+\.py)`", text)
    assert len(named) > 15
    for name in named:
        assert (ROOT / "tests" / name).exists(), name
