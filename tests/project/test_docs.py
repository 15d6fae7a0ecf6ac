"""The docs name what exists.  Their examples are run as doctests (see pyproject.toml)."""

from __future__ import annotations

import importlib
import inspect
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
HOW_TO = sorted((ROOT / "docs" / "how_to").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *HOW_TO]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
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


def leads_somewhere(target):
    """Whether there is such a file, or the gallery makes such a page of an example."""
    example = re.fullmatch(r".*/docs/examples/(\w+)\.rst", str(target))
    made = {path.stem for path in GALLERY} | {"index"}
    return target.exists() or (example is not None and example.group(1) in made)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\((?!\w+:)([^)#]+)", text) + re.findall(r'href="([^"#:]+)"', text):
        source = target.replace(".html", ".md")
        found = [(page.parent / name).resolve() for name in (target, source)]
        found.append((page.parent / target.replace(".html", ".rst")).resolve())
        assert any(map(leads_somewhere, found)), target


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
    fences = re.compile(r"^```(\S*)\n(.*?)^```$", re.M | re.S)
    found = [pair for page in DOCS for pair in fences.findall(page.read_text())]
    blocks = [block for language, block in found if not language]
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
    """In one toctree, of the page that it names or of one above it."""
    listed = []
    for page in [*PAGES, ROOT / "docs" / "api.rst"]:
        text = page.read_text()
        entries = re.findall(r"```{toctree}\n(.*?)```", text, re.S)
        entries += re.findall(r"toctree::\n(.*?)\n\n\w", text, re.S)
        listed += [word for block in entries for word in block.split() if not word.startswith(":")]
    pages = [*PAGES, *(ROOT / "docs" / "api").glob("*.rst")]
    for page in pages:
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        assert listed.count(name) == (name != "index"), name


def test_what_shows_a_feature_exists():
    text = (ROOT / "docs" / "comparison.md").read_text()
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", text)
    assert len(named) > 15
    for name in named:
        assert len(meant(name)) == 1, name


PUBLIC = {
    "batchsvm", "batchsvm.estimators", "batchsvm.models", "batchsvm.files", "batchsvm.displays",
    "batchsvm.methods",
}  # fmt: skip


def public_objects():
    """Every class and function that an `__all__` names, and the losses, each by its identity."""
    for name in sorted(PUBLIC):
        module = importlib.import_module(name)
        for public in module.__all__:
            found = getattr(module, public)
            if inspect.isclass(found) or inspect.isfunction(found):
                yield f"{name}.{public}", found
    for loss in LOSSES.values():
        yield f"batchsvm.losses.{loss.__name__}", loss


def documented_names(directives, page):
    """The full names of what a page of reStructuredText documents."""
    text = page.read_text()
    module = "batchsvm"
    for line in text.splitlines():
        if given := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = given.group(1)
        elif given := re.match(directives, line):
            name = given.group(1)
            yield name if name.startswith("batchsvm.") else f"{module}.{name}"


def resolve(name):
    """The object of a full name, through modules and then attributes."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_api_reference_documents_every_public_name():
    pages = sorted((ROOT / "docs" / "api").glob("*.rst"))
    auto = r"\.\. auto(?:class|function|exception):: (\S+)"
    names = [name for page in pages for name in documented_names(auto, page)]
    assert len(names) == len(set(names))
    documented = [resolve(name) for name in names]
    for name, found in public_objects():
        assert any(found is other for other in documented), name
        assert inspect.getdoc(found), name


def test_the_tables_of_the_api_reference_list_what_its_pages_document():
    auto = r"\.\. auto(?:class|function|exception):: (\S+)"
    pages = sorted((ROOT / "docs" / "api").glob("*.rst"))
    documented = {name for page in pages for name in documented_names(auto, page)}
    listed = list(documented_names(r"   ([\w.]+)$", ROOT / "docs" / "api.rst"))
    assert len(listed) == len(set(listed))
    assert set(listed) == documented


def test_the_session_in_the_readme_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """Lines `$ batchsvm ...` and what follows them; the seconds of a fit may differ."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BATCHSVM_DATA", raising=False)
    [session] = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    commands = re.findall(r"^\$ batchsvm (.*)\n((?:[^$].*\n)*)", session, re.M)
    assert len(commands) == session.count("$ ") > 3
    for command, shown in commands:
        with pytest.raises(SystemExit) as left:
            main(shlex.split(command))
        assert left.value.code == 0
        printed = "".join(capsys.readouterr())
        for line in shown.splitlines():
            pattern = re.sub(r"(?<=and\\ )[\de.\\-]+(?=\\ s$)", r"\\S+", re.escape(line))
            assert re.search(f"^{pattern}$", printed, re.M), (line, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_no_residue_of_doctests(page):
    """No output that is cut short, no address of an object, no line that is wider than its box."""
    for block in re.findall(r"```(?:python|console)?\n(.*?)```", page.read_text(), re.S):
        for line in block.splitlines():
            assert " at 0x" not in line, line
            is_code = line.startswith((">>>", "..."))
            assert is_code or "..." not in line or "Traceback" in block, line
            assert len(line) <= 110 or not is_code, line
