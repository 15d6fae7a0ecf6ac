"""Every empirical sentence of Sections 4 to 6, judged on the numbers.

A claim looks at the median over seeds of the iterations to a 0.001-accurate solution, set by
set, and says on which of them it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

Medians = Mapping[tuple[str, str, int], float]  # (set, method or variant, b) -> iterations


class Evidence(NamedTuple):
    """What one set shows: whether the claim holds there, and the number it rests on."""

    holds: bool | None  # None: the set cannot tell
    measured: str


class Claim(NamedTuple):
    where: str  # section of the paper
    words: str
    judge: Callable[[Medians, str, Facts], Evidence]


class Facts(NamedTuple):
    """What claims need to know of a set."""

    n: int
    inverse_sigma2: float
    sizes: list[int]
    variation_sizes: list[int]
    most: dict[int, float]  # iterations allowed at each b
    naive_rise: float | None = None  # its last over its least error, along a run of Figure 2


def medians(rows: list[dict], averaging: str = "", loss: str = "hinge") -> Medians:
    """Median over seeds; a run that never got there counts as infinity."""
    groups: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        if row["averaging"] == averaging and row["loss"] == loss:
            plain = row["variant"] in ("", "wrong beta")
            name = row["method"] if plain else f"{row['method']}, {row['variant']}"
            value = inf if row["iterations"] is None else row["iterations"]
            groups.setdefault((row["data"], name, row["b"]), []).append(value)
    return {key: median(values) for key, values in groups.items()}


def _ratio(one: float, two: float) -> float:
    return one / two if two > 0 and two < inf else (0.0 if one < inf else float("nan"))


def sdca_ahead_at_one(m: Medians, name: str, facts: Facts) -> Evidence:
    sdca, pegasos = m[name, "safe", 1], m[name, "pegasos", 1]
    return Evidence(sdca < pegasos, f"SDCA {sdca:,.0f}, Pegasos {pegasos:,.0f} iterations")


def near_linear(m: Medians, name: str, facts: Facts) -> Evidence:
    within = [b for b in facts.sizes if 1 < b <= facts.inverse_sigma2]
    if not within:
        return Evidence(None, f"1/σ² = {facts.inverse_sigma2:.2g}: no batch is that small")
    b = within[-1]
    # beta_b is at most 2 there, so that the theory promises at least half of b.
    speedups = {x: _ratio(m[name, x, 1], m[name, x, b]) for x in ("pegasos", "safe", "aggressive")}
    words = ", ".join(f"{x} {value:.1f}" for x, value in speedups.items())
    return Evidence(min(speedups.values()) >= b / 2, f"speed-up at b = {b}: {words}")


def safe_flattens(m: Medians, name: str, facts: Facts) -> Evidence:
    far = [b for b in facts.sizes if b >= 8 * facts.inverse_sigma2]
    reached = [b for b in far if m[name, "safe", b] < inf]
    if len(reached) < 2:
        return Evidence(None, "safe SDCA does not reach the goal within the epochs allowed")
    gain = _ratio(m[name, "safe", reached[0]], m[name, "safe", reached[-1]])
    ideal = reached[-1] / reached[0]
    return Evidence(
        gain < ideal**0.5,
        f"from b = {reached[0]} to {reached[-1]} iterations fall {gain:.1f}-fold"
        f" (linear: {ideal:.0f})",
    )


def safe_never_worse(m: Medians, name: str, facts: Facts) -> Evidence:
    values = [m[name, "safe", b] for b in facts.sizes if m[name, "safe", b] < inf]
    worst = max((after / before for before, after in pairwise(values)), default=1)
    # A batch that never got there tells something only if it was allowed clearly more
    # iterations than smaller batches needed.
    missed = [
        b for b in facts.sizes
        if m[name, "safe", b] == inf and values and facts.most[b] > 1.5 * min(values)
    ]  # fmt: skip
    holds = worst <= 1.1 and not missed
    note = f"; does not reach the goal at b = {missed[0]}" if missed else ""
    return Evidence(holds, f"largest rise from one b to the next: {worst:.2f}-fold{note}")


def naive_rises(m: Medians, name: str, facts: Facts) -> Evidence:
    if facts.naive_rise is None:
        return Evidence(None, "not in Figure 2")
    words = f"at the end the error is {facts.naive_rise:.1f} times its minimum"
    return Evidence(facts.naive_rise > 1.5, words)


def beyond_the_knee(m: Medians, name: str, facts: Facts) -> Evidence:
    knee = min((b for b in facts.sizes if b >= facts.inverse_sigma2), default=None)
    if knee is None or facts.sizes[-1] < 16 * knee:
        return Evidence(None, "no batch far beyond 1/σ²")
    gains = {
        x: _ratio(m[name, x, knee], min(m[name, x, b] for b in facts.sizes if b > knee))
        for x in ("pegasos", "aggressive")
    }
    words = ", ".join(f"{x} {gain:.1f}-fold" for x, gain in gains.items())
    return Evidence(min(gains.values()) > 1.5, f"fewer iterations than at b = {knee}: {words}")


def same_speedups(m: Medians, name: str, facts: Facts) -> Evidence:
    """The ratio of the two speed-ups, at the b that is best for each."""
    best = {
        x: _ratio(m[name, x, 1], min(m[name, x, b] for b in facts.sizes))
        for x in ("pegasos", "aggressive")
    }
    words = ", ".join(f"{x} {value:,.0f}" for x, value in best.items())
    return Evidence(
        best["aggressive"] >= best["pegasos"] / 2, f"largest speed-up in iterations: {words}"
    )


def beta_too_large(m: Medians, name: str, facts: Facts) -> Evidence:
    ratios = _against_plain(m, name, facts, "safe", "sigma2 = 1")
    if not ratios:
        return Evidence(None, "not run on this set, or not within the iterations allowed")
    return Evidence(min(ratios.values()) > 1.1, _listed(ratios))


def naive_fails(m: Medians, name: str, facts: Facts) -> Evidence:
    failed = failure_of_naive(m, name, facts)
    return Evidence(failed is not None, f"fails from b = {failed}" if failed else "never fails")


def failure_of_naive(m: Medians, name: str, facts: Facts) -> int | None:
    """The smallest b from which naive fails or needs more iterations than a smaller b did."""
    best = inf
    for b in facts.sizes:
        value = m[name, "naive", b]
        if value == inf or value > 1.5 * best:
            return b
        best = min(best, value)
    return None


def aggressive_goes_on(m: Medians, name: str, facts: Facts) -> Evidence:
    failed = failure_of_naive(m, name, facts)
    if failed is None or failed == facts.sizes[-1]:
        return Evidence(None, "naive does not fail before the largest b")
    at, last = m[name, "aggressive", failed], min(
        m[name, "aggressive", b] for b in facts.sizes if b > failed
    )  # fmt: skip
    return Evidence(
        last < at, f"{at:,.0f} iterations at b = {failed}, {last:,.0f} at the best b beyond"
    )


def gram_needs_no_more_epochs(m: Medians, name: str, facts: Facts) -> Evidence:
    """At every b past naive's failure.  Gram visits the rows in another order than the paper's
    SDCA; with b = 1 it is serial SDCA in that order, which tells the two effects apart."""
    failed = failure_of_naive(m, name, facts)
    epochs = {
        b: m[name, "gram", b] * b / facts.n for b in facts.sizes if (name, "gram", b) in m
    }  # fmt: skip
    past = [b for b in epochs if failed is not None and b >= failed]
    if not past:
        return Evidence(None, "naive does not fail where gram was run")
    serial, there = m[name, "naive", 1] / facts.n, [epochs[b] for b in past]
    behind = [b for b in past if epochs[b] > serial]
    sizes = f"b = {past[0]}" + (f" to {past[-1]}" if len(past) > 1 else "")
    words = (
        f"at {sizes} gram needs {min(there):.1f} to {max(there):.1f} epochs, serial SDCA"
        f" {serial:.1f}, and {epochs[1]:.1f} in gram's order of rows (gram at b = 1)"
    )
    return Evidence(not behind, words + (f"; behind at b = {behind}" if behind else ""))


def aggressive_leads_pegasos(m: Medians, name: str, facts: Facts) -> Evidence:
    ratios = {
        b: _ratio(m[name, "pegasos", b], m[name, "aggressive", b])
        for b in facts.sizes
        if min(m[name, "pegasos", b], m[name, "aggressive", b]) < inf
    }
    behind = [b for b, ratio in ratios.items() if not ratio > 1]
    words = f"Pegasos needs {min(ratios.values()):.2f} to {max(ratios.values()):.1f} times as many"
    return Evidence(not behind, words + (f"; behind at b = {behind}" if behind else ""))


def more_rounds(m: Medians, name: str, facts: Facts) -> Evidence:
    ratios = _against_plain(m, name, facts, "aggressive", "3 rounds")
    if not ratios:
        return Evidence(None, "not run on this set")
    return Evidence(min(ratios.values()) > 0.8, _listed(ratios))


def crude_is_enough(m: Medians, name: str, facts: Facts) -> Evidence:
    ratios = _against_plain(m, name, facts, "aggressive", "sigma2 = 1")
    if not ratios:
        return Evidence(None, "not run on this set")
    return Evidence(max(ratios.values()) < 1.5, _listed(ratios))


def _against_plain(
    m: Medians, name: str, facts: Facts, method: str, variant: str
) -> dict[int, float]:
    found = {}
    for b in facts.variation_sizes:
        changed = m.get((name, f"{method}, {variant}", b))
        if changed is not None and m[name, method, b] < inf:
            found[b] = changed / m[name, method, b]
    return found


def _listed(ratios: dict[int, float]) -> str:
    return "iterations against the plain rule: " + ", ".join(
        f"{'too many' if ratio == inf else f'{ratio:.2f}'} at b = {b}"
        for b, ratio in ratios.items()
    )


CLAIMS = [
    Claim("5", "SDCA needs fewer iterations than Pegasos at b = 1", sdca_ahead_at_one),
    Claim("5", "Speed-up is nearly linear up to b about 1/σ², for Pegasos and SDCA", near_linear),
    Claim("5", "Beyond that the safe variant gains little from larger batches", safe_flattens),
    Claim("5", "The safe variant does not deteriorate", safe_never_worse),
    Claim("4.1, 5", "The naive variant deteriorates or fails for large batches", naive_fails),
    Claim("4.1, 5", "Along a run, naive's objective gets worse again past some b", naive_rises),
    Claim("5", "Pegasos and aggressive continue to gain beyond b about 1/σ²", beyond_the_knee),
    Claim("5, 6", "Aggressive has roughly the speed-ups of Pegasos (half or more)", same_speedups),
    Claim("5", "The aggressive variant improves past naive's failure", aggressive_goes_on),
    Claim("5", "The aggressive variant leads Pegasos at every b", aggressive_leads_pegasos),
    Claim(
        "4.2", "Where naive fails, the joint update (gram) needs no more epochs than serial SDCA",
        gram_needs_no_more_epochs,
    ),
    Claim("4.3", "Adapting rho further within an iteration is not worth it", more_rounds),
    Claim(
        "6", "A β that is too large, here from σ² = 1, costs the safe variant its gains",
        beta_too_large,
    ),
    Claim("4.3", "A very crude bound on σ², here 1, is enough for aggressive", crude_is_enough),
]  # fmt: skip


def verdict(evidence: Mapping[str, Evidence]) -> str:
    """holds / does not hold / only where, over the sets that can tell."""
    told = {name: found.holds for name, found in evidence.items() if found.holds is not None}
    if not told:
        return "cannot be told"
    if all(told.values()):
        return "holds"
    if not any(told.values()):
        return "does not hold"
    return "only on " + ", ".join(name for name, holds in told.items() if holds)


def judge(m: Medians, facts: Mapping[str, Facts]) -> dict[Claim, dict[str, Evidence]]:
    return {claim: {name: claim.judge(m, name, facts[name]) for name in facts} for claim in CLAIMS}
