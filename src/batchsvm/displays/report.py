"""One page of HTML about a model: data, plan, certificate in words, plots.

The page is one file: style and pictures are inside, there is no script, and nothing is
fetched, so that it can be mailed, archived and read anywhere.
"""

from __future__ import annotations

import base64
import io
import os
from html import escape
from math import isfinite, isnan
from typing import Any

import numpy as np

from batchsvm.core.certificate import Certificate
from batchsvm.core.planning import Plan, method_in_words
from batchsvm.core.solution import Status
from batchsvm.core.spectral import Sigma2, beta_b
from batchsvm.displays.panels import apart, on_paper
from batchsvm.displays.plots import (
    ConvergenceDisplay,
    ScheduleDisplay,
    SpeedupDisplay,
)
from batchsvm.files.atomic import replacing
from batchsvm.methods import Newton
from batchsvm.models import Model

STRONGEST = 10
SMALL = 0.01  # part of P that a bound may be to be called small
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
       color: #1d2733; background: #fff; max-width: 56rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem;
     border-bottom: 1px solid #d5dde6; padding-bottom: .2rem; }
p { margin: .5rem 0; } .sub { color: #5b6876; }
.verdict { border-left: .35rem solid #5b6876; background: #f2f5f8; padding: .7rem 1rem;
           margin: 1.2rem 0; }
.verdict.good { border-color: #2e7d4f; background: #eef7f1; }
.verdict.short { border-color: #b3541e; background: #fdf3ec; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; white-space: nowrap; }
th { color: #5b6876; font-weight: 600; border-bottom: 1px solid #d5dde6; }
th:first-child, td:first-child { text-align: left; }
.words td { text-align: left; white-space: normal; vertical-align: top; }
.words td:first-child { color: #5b6876; white-space: nowrap; padding-right: 1.4rem; }
tr.chosen td { background: #eef3fa; font-weight: 600; }
figure { margin: 1rem 0 1.6rem; } figure img { width: 100%; max-width: 42rem; display: block; }
figcaption { color: #5b6876; font-size: .92rem; max-width: 42rem; }
code { background: #f2f5f8; padding: .1rem .3rem; border-radius: .2rem; }
"""


def write_report(
    path: str | os.PathLike[str],
    model: Model,
    data: dict[str, Any],
    names: list[str] | None = None,
) -> None:
    """Write the page; `data` holds the facts of the training data (rows, columns, ...)."""
    page = make_report(model, data, names)
    with replacing(path, text=True) as sink:
        sink.write(page)


def make_report(model: Model, data: dict[str, Any], names: list[str] | None = None) -> str:
    """The text of the page."""
    title = f"{model.loss_name.replace('_', ' ')} model of {data.get('file', 'data')}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">trained by batchsvm {escape(model.library_version)}</p>',
        _verdict(model),
        "<h2>The data</h2>",
        _data(data, model.classes is not None),
    ]
    if model.plan is not None:
        parts += ["<h2>What batches can bring</h2>", _plan(model.plan, model.method)]
    parts += ["<h2>The certificate</h2>", _certificates(model)]
    parts += ["<h2>How it was trained</h2>", _training(model)]
    parts += _plots(model)
    parts += ["<h2>The strongest coefficients</h2>", _coefficients(model, names)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _converged(model: Model) -> bool:
    return bool(model.statuses) and set(model.statuses) == {Status.CONVERGED.name}


def in_words(certificate: Certificate, tol: float | None, converged: bool = False) -> str:
    """A certificate as sentences for someone who has never seen one.

    `converged` says that training ended within tol: a model whose objective is next to nothing
    may be so without being within tol of that.
    """
    if not isfinite(certificate.gap):
        return "The iterates overflowed: nothing is known about this model."
    dual, primal = apart(certificate.dual, certificate.primal)
    text = (
        f"The training objective of this model is {primal}. No linear model can"
        f" bring it below {dual}, which the dual point in the model file proves."
        f" So this model is at most {certificate.bound:.3g} above the best possible one, rounding"
        f" errors included: {100 * certificate.relative_gap:.3g} % of its objective."
    )
    if tol is None:
        return text
    met = certificate.relative_gap <= tol
    if converged and not met:
        return (
            f"{text} The objective is next to nothing beside that of the best constant model. The"
            f" bound is within {100 * tol:.3g} % of {100 * tol:.3g} % of the latter, which counts"
            " as converged."
        )
    return text + (
        f" That is within the tolerance of {100 * tol:.3g} % that was asked for."
        if met
        else f" That is more than the tolerance of {100 * tol:.3g} % that was asked for: the model"
        " may be good all the same, but this run has not proved it."
    )


def _verdict(model: Model) -> str:
    worst = model.worst
    if worst is None:
        return '<div class="verdict short"><p>This model comes without a certificate.</p></div>'
    tol = model.plan.tol if model.plan is not None else None
    kind = _kind_of_verdict(worst, tol, _converged(model))
    many = len(model.certificates) > 1
    lead = "For the class with the largest gap: " if many else ""
    words = in_words(worst, tol, _converged(model))
    words = lead + (words[0].lower() + words[1:] if many else words)
    return f'<div class="verdict{kind}"><p>{escape(words)}</p></div>'


def _kind_of_verdict(worst: Certificate, tol: float | None, converged: bool) -> str:
    """How the verdict is coloured: green where the bound is small beside P, a warning where it is
    above tol, and neither where tol itself is not small."""
    if worst.relative_gap <= SMALL:
        return " good"
    return "" if converged or (tol is not None and worst.relative_gap <= tol) else " short"


def _words(rows: dict[str, str]) -> str:
    cells = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in rows.items())
    return f'<table class="words">{cells}</table>'


def _table(head: list[str], rows: list[list[str]], chosen: int | None = None) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = [f"<tr>{cells}</tr>"]
    for k, row in enumerate(rows):
        mark = ' class="chosen"' if k == chosen else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _data(data: dict[str, Any], has_classes: bool) -> str:
    rows = {}
    if "file" in data:
        rows["file"] = str(data["file"])
    rows["rows"], rows["columns"] = f"{data['rows']:,}", f"{data['columns']:,}"
    if data.get("nonzeros") is not None:
        rows["non-zeros"] = (
            f"{data['nonzeros']:,} ({100 * data['fill']:.3g} % of all entries,"
            f" {data['nonzeros'] / data['rows']:.3g} a row)"
        )
    if "storage" in data:
        rows["storage"] = f"{data['storage']}, {data['type']}"
    labels = data.get("labels")
    if labels and has_classes:
        shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
        rows["classes"] = f"{len(labels):,}: {shown}"
    return _words(rows)


def _plan(plan: Plan, method: str) -> str:
    has_changed = plan.is_trial or method != plan.method
    text = (
        "σ², the squared spectral norm of the data divided by the number of rows, is"
        f" {_sigma2_in_words(plan.sigma2)}:"
        f" about {1 / plan.sigma2:.3g} rows fit into a batch before they get in each other's way."
        f" Training {'began with' if has_changed else 'took'}"
        f" {'one row' if plan.batch_size == 1 else f'{plan.batch_size:,} rows'} at a time:"
        f" {plan.reason}."
    )
    rows = [
        [
            f"{row.b:,}",
            f"{row.beta_b:.2f}",
            f"{row.speedup:.2f}",
            _count(row.pegasos_T),
            _count(row.T),
        ]
        for row in plan.table
    ]
    chosen = next((k for k, row in enumerate(plan.table) if row.b == plan.batch_size), None)
    head = [
        "batch size b",
        "β_b",
        "speed-up b/β_b, in iterations",
        "Pegasos, at most",
        "SDCA, at most",
    ]
    note = (
        "The last two columns are the iterations after which Theorems 1 and 2 promise a"
        " gap of tol times what the zero model has, in the worst case; real runs need far fewer."
    )
    return f"<p>{escape(text)}</p>{_table(head, rows, chosen)}<p class='sub'>{note}</p>"


def _sigma2_in_words(sigma2: Sigma2) -> str:
    """The number, and how sure it is."""
    chance = sigma2.failure_probability
    if isnan(chance):
        return f"about {sigma2:.4g} ({sigma2.how})"
    if chance > 0:
        return f"at most {sigma2:.4g} ({sigma2.how})"
    return f"{sigma2:.4g}" + (", computed exactly" if sigma2.how == "exact" else f" ({sigma2.how})")


def _count(value: float) -> str:
    return f"{value:,}" if isfinite(value) else "no promise"


def _certificates(model: Model) -> str:
    if not model.certificates:
        return "<p>None.</p>"
    rows = []
    for k, c in enumerate(model.certificates):
        name = (
            [str(model.classes[k])]
            if len(model.certificates) > 1 and model.classes is not None
            else []
        )
        numbers = [f"{c.primal:.8g}", f"{c.dual:.8g}", f"{c.gap:.3g}", f"{c.rounding:.1g}"]
        proven = [f"{c.bound:.3g}", f"{c.relative_gap:.3g}"]
        rows.append([*name, *numbers, *proven, f"{c.support_vectors:,}"])
    head = ["primal P(w)", "dual D(α)", "gap", "rounding", "bound", "bound / P", "support vectors"]
    if len(model.certificates) > 1:
        head = ["class", *head]
    lacks = "".join(f"<p>Not in this file: {escape(words)}.</p>" for words in model.lacks)
    explained = _words({
        "primal": "the mean loss plus λ/2 times the squared norm of the coefficients",
        "dual": "a floor: no linear model has a primal value below it",
        "gap": "primal − dual, as computed",
        "rounding": "an upper bound on how much too small rounding errors can have made the gap",
        "bound": "proven: the model is at most this far above the optimum",
        "bound / P": "the bound relative to the model's own objective; what tol is about",
    })  # fmt: skip
    return _table(head, rows) + lacks + explained


def _training(model: Model) -> str:
    whole = model.method == Newton.name or model.batch_size in (None, 1)
    batches = "" if whole else f", batches of {model.batch_size:,}"
    parameters = ", ".join(f"{k} = {v}" for k, v in _parameters(model).items())
    rows = {
        "loss": model.loss_name + (f" ({parameters})" if parameters else ""),
        "λ": "unknown" if model.lam is None else f"{model.lam:g}",
        "method": method_in_words(model.method, model.batch_size) + batches,
        "intercept": _intercept(model),
    }
    if model.statuses:
        ends = {Status[name].value for name in model.statuses if name in Status.__members__}
        rows["ended because"] = "; ".join(sorted(ends))
    if model.history:
        epochs = [history["epoch"][-1] for history in model.history]
        seconds = sum(history["seconds"][-1] for history in model.history)
        checks = sum(history["certify_seconds"][-1] for history in model.history)
        rows["passes over the data"] = f"{max(epochs):.4g}" + (
            " (at most, for one class)" if len(epochs) > 1 else ""
        )
        rows["time"] = f"{seconds:.3g} s of optimisation, {checks:.3g} s of certificates"
    return _words(rows)


def _intercept(model: Model) -> str:
    if model.free_intercept:
        return "yes, free: it is not penalised"
    return f"yes, a penalised column of {s:g}" if (s := model.intercept_scaling) else "no"


def _parameters(model: Model) -> dict[str, Any]:
    return {} if model.loss is None else model.loss._asdict()  # type: ignore[attr-defined]


class _Fields:
    """A history of a model file, with its fields as attributes."""

    def __init__(self, history: dict[str, np.ndarray]) -> None:
        self.__dict__.update(history)


def _plots(model: Model) -> list[str]:
    found: list[tuple[str, str]] = []
    with on_paper():
        if model.history and model.certificates:
            k = max(range(len(model.history)), key=lambda k: model.certificates[k].relative_gap)
            history: Any = _Fields(model.history[k])
            certificate, plan = model.certificates[k], model.plan
            tol = None if plan is None else plan.tol * certificate.primal
            who = (
                f", class {model.classes[k]}"
                if len(model.history) > 1 and model.classes is not None
                else ""
            )
            display: Any = ConvergenceDisplay.from_history(
                history, tol=tol, certificate=certificate
            )
            found.append((
                _picture(display.figure_),
                f"Convergence{who}: each filled point is a certificate, and each hollow one an"
                " estimate, which costs nothing and proves nothing. The optimum lies in the shaded"
                " band between primal and dual; the gap is its height.",
            ))  # fmt: skip
            if (
                model.method == "aggressive"
                and (model.batch_size or 1) > 1
                and model.plan is not None
            ):
                bound = beta_b(model.batch_size or 1, model.plan.n, model.plan.sigma2)
                display = ScheduleDisplay.from_history(history, beta_b=bound)
                found.append((
                    _picture(display.figure_),
                    "β divides the step lengths: the aggressive rule lowers it from the safe value"
                    " as far as the data allows, and refuses steps that would not raise the dual.",
                ))  # fmt: skip
        if model.plan is not None:
            display = SpeedupDisplay.from_plan(model.plan)
            found.append((
                _picture(display.figure_),
                "What batches can bring on this data: the speed-up follows the batch size up to"
                " about 1/σ² and levels off beyond.",
            ))  # fmt: skip
    figures = [
        f'<figure><img alt="{escape(words)}" src="data:image/svg+xml;base64,{code}">'
        f"<figcaption>{escape(words)}</figcaption></figure>"
        for code, words in found
    ]
    return ["<h2>Plots</h2>", *figures] if figures else []


def _picture(figure: Any) -> str:
    import matplotlib

    sink = io.BytesIO()
    # Without these, the same model would give another page each time.
    with matplotlib.rc_context({"svg.hashsalt": "batchsvm"}):
        figure.savefig(sink, format="svg", metadata={"Date": None})
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _coefficients(model: Model, names: list[str] | None) -> str:
    rows = []
    for k in range(model.coef.shape[0]):
        row = model.coef[k]
        strongest = np.argsort(-np.abs(row), kind="stable")[:STRONGEST]
        who = (
            [str(model.classes[k])] if model.coef.shape[0] > 1 and model.classes is not None else []
        )
        rows += [
            [names[j] if names else f"column {j + 1}", *who, f"{row[j]:.6g}"]
            for j in strongest
            if row[j] != 0
        ]
        if len(rows) >= 10 * STRONGEST:
            break
    if not rows:
        return "<p>All coefficients are zero.</p>"
    head = (
        ["feature", "class", "coefficient"]
        if model.coef.shape[0] > 1
        else ["feature", "coefficient"]
    )
    toward = ""
    if model.classes is not None and model.classes.size == 2:
        toward = (
            f"<p class='sub'>Positive coefficients speak for {escape(str(model.classes[1]))},"
            f" negative ones for {escape(str(model.classes[0]))}.</p>"
        )
    return _table(head, rows) + toward
