#!/usr/bin/env python3
"""Every default against its alternatives on every set, and what would be chosen without a set.

usage: defaults_table.py REPORT.json ...

The reports are those of `cargo xtask figures cross-validation SET --config benches/figures/configs/defaults/base.toml
--config benches/figures/configs/defaults/OTHER.toml ...`; configurations of one name in several reports of a set are put
together. An error counts no more than three times the median of the first configuration, so that one vertebra that is
mistaken for the next does not decide. The loss of a case is the mean over its structures of the centre's error and, where
the angle is known, of the angle's, each as a share of the mean with the first configuration. Needs Python alone.
"""

import json
import math
import statistics
import sys

CAP = 3.0
MEASURES = ("center_mm", "angle_deg")


def errors(configuration, measure):
    """{(case, structure): error} of what is annotated and has a position."""
    records = configuration["records"]
    present = [r for r in records if r["truth"] == "present" and r.get("error")]
    values = {(r["case"], r["structure"]): r["error"].get(measure) for r in present}
    return {key: value for key, value in values.items() if value is not None}


def losses(base, configuration):
    """{case: loss}, 1 on average for the base itself."""
    shares = {}
    for measure in MEASURES:
        ours, theirs = errors(base, measure), errors(configuration, measure)
        for structure in {s for _, s in ours}:
            mine = {key: value for key, value in ours.items() if key[1] == structure}
            cap = CAP * statistics.median(mine.values())
            mean = statistics.mean(min(value, cap) for value in mine.values())
            for key in mine:
                # Without an answer it is as wrong as can be.
                share = min(theirs.get(key, cap), cap) / mean if mean > 0 else 1.0
                shares.setdefault(key[0], []).append(share)
    return {case: statistics.mean(values) for case, values in shares.items()}


def main(paths):
    sets = {}
    for path in paths:
        report = json.load(open(path))
        known = sets.setdefault(report["dataset"], {})
        for configuration in report["configurations"]:
            known.setdefault(configuration["name"], configuration)
    changes = {}  # {set: {name: (mean, standard error)}}, in per cent
    for name, configurations in sets.items():
        base = configurations["base"]
        own = losses(base, base)
        changes[name] = {}
        for other, configuration in configurations.items():
            theirs = losses(base, configuration)
            steps = [100 * (theirs[case] - own[case]) for case in own]
            spread = statistics.stdev(steps) / math.sqrt(len(steps))
            changes[name][other] = (statistics.mean(steps), spread)
    names = list(dict.fromkeys(n for c in changes.values() for n in c if n != "base"))
    everywhere = [n for n in names if all(n in c for c in changes.values())]

    def mean_of(name, over):
        return 0.0 if name == "base" else statistics.mean(changes[s][name][0] for s in over)

    print("| alternative | " + " | ".join(f"`{s}`" for s in changes) + " | mean |")
    print("|---|" + "---|" * (len(changes) + 1))
    for name in names:
        cells = [changes[s].get(name) for s in changes]
        shown = ["–" if c is None else f"{c[0]:+.1f} ± {c[1]:.1f}" for c in cells]
        mean = f"{mean_of(name, changes):+.1f}" if name in everywhere else "–"
        print(f"| {name} | " + " | ".join(shown) + f" | {mean} |")

    print("\n| left out | chosen on the others | there | best there | there |")
    print("|---|---|---|---|---|")
    candidates = ["base", *everywhere]
    for left_out in changes:
        others = [s for s in changes if s != left_out]
        here = {n: 0.0 if n == "base" else changes[left_out][n][0] for n in candidates}
        chosen = min(candidates, key=lambda n: mean_of(n, others))
        best = min(here, key=here.get)
        print(f"| `{left_out}` | {chosen} | {here[chosen]:+.1f} % | {best} | {here[best]:+.1f} % |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
