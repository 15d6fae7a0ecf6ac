"""The docs name what exists.  Their examples are run as doctests (see pyproject.toml)."""

from __future__ import annotations

import re
import runpy
import shlex
import tomllib
from pathlib import Path

import matplotlib
import pytest

from batchsvm.cli import main
from batchsvm.losses import LOSSES

ROOT = Path(__file__).parents[2]
SOURCE, TESTS = ROOT / "src" / "batchsvm", ROOT / "tests"
DOCS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
GALLERY = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
STATEMENTS = (ROOT / "docs" / "maths.md").read_text()
MAP = "\n## Every file"  # of docs/design.md


REFERENCE = re.compile(r"`((?:\w+/)*\w+\.py)(?:::(\w+))?`")


def meant(file):
    """The files that a page means by `core/loop.py`, `core/test_loop.py` or `test_loop.py`."""
    if Path(file).name.startswith("test_"):
        found = TESTS.rglob(Path(file).name)
        return [path for path in found if f"/{path.relative_to(ROOT)}".endswith(f"/{file}")]
    return [base / file for base in (SOURCE, ROOT) if (base / file).is_file()]


@pytest.mark.parametrize(("file", "name"), sorted(set(REFERENCE.findall(STATEMENTS))))
def test_what_the_maths_page_names_exists(file, name):
    [path] = meant(file)
    text = path.read_text()
    assert not name or re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    text = page.read_text()
    if page.name == "design.md":
        text = text[: text.index(MAP)]  # the map has a test of its own
    for file, name in REFERENCE.findall(text):
        paths = meant(file)
        assert paths, file
        defined = rf"^\s*(def|class) {name}\b"
        assert not name or any(re.search(defined, p.read_text(), re.M) for p in paths), name


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


def test_the_map_names_every_file_in_its_folder_and_no_other():
    text = (ROOT / "docs" / "design.md").read_text()
    mapped = {
        f"{folder}/{name}"
        for folder, section in re.findall(r"^### `([\w/]+)/`\n(.*?)(?=^##|\Z)", text, re.M | re.S)
        for line in re.findall(r"^\| (`.*?) \|", section, re.M)
        for name in re.findall(r"`(\w+\.py)`", line)
    }
    sources = {str(path.relative_to(ROOT)) for path in SOURCE.rglob("*.py")}
    assert mapped == {path for path in sources if not path.endswith("/__init__.py")}


def test_the_layers_in_the_docs_are_those_that_the_linter_checks():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [layers] = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    for page in (ROOT / "docs" / "design.md", ROOT / "CONTRIBUTING.md"):
        blocks = re.findall(r"```\n(.*?)```", page.read_text(), re.S)
        picture = next(block for block in blocks if "cli/" in block)
        assert re.findall(r"^ *(\w+)(?:/|\.py) ", picture, re.M) == layers, page.name


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
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", text)
    assert len(named) > 15
    for name in named:
        assert len(meant(name)) == 1, name
