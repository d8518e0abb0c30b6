"""What `hloom opt` says of passes: the list of them, what each did, every rewrite."""

from __future__ import annotations

from typing import Any

import typer

from hloom import api
from hloom.tools.pass_names import described
from hloom.tools.terminal import console, print_table, table, time_text, write_json


def show_lists(passes: bool, read: frozenset[str], as_json: bool) -> None:
    """The passes, or the options, of which those in `read` act."""
    if passes:
        list_passes(as_json)
    else:
        list_options(read, as_json)


def list_passes(as_json: bool) -> None:
    """Every pass with its summary, options, and rules with their laws."""
    passes = [described(name) for name in sorted(api.PASSES)]
    if as_json:
        write_json({"passes": passes})
        return
    for p in passes:
        typer.echo(f"{typer.style(p['name'], bold=True)}: {p['summary']}")
        for name, default in p["options"].items():
            typer.echo(f"  {{{name}={_shown(default)}}}")
        for word in ("needs", "gives", "breaks"):
            if p[word]:
                typer.echo(f"  {word} {', '.join(p[word])}")
        width = max((len(r["name"]) for r in p["rules"]), default=0)
        for r in p["rules"]:
            typer.echo(f"  {r['name']:<{width}}  {typer.style(r['law'], dim=True)}")


def list_options(read: frozenset[str], as_json: bool) -> None:
    """The table of the compiler's options; those that nothing reads yet are marked."""
    if as_json:
        rows = [
            {
                "name": option.name,
                "default": option.default,
                "acts": option.name in read,
                "meaning": option.meaning,
            }
            for option in api.OPTIONS.values()
        ]
        write_json({"ok": True, "options": rows})
        return
    rich_table = table(
        "options, also with xla_ in front and in XLA_FLAGS", "option", "acts", "meaning"
    )
    for option in api.OPTIONS.values():
        acts = "yes" if option.name in read else "not yet"
        rich_table.add_row(option.written(), acts, option.meaning)
    print_table(rich_table, console())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def show_records(records: list[api.PassRecord]) -> None:
    """One line per pass: instructions before and after, rewrites, time."""
    rich_table = table("passes", "pass", ">before", ">after", ">rewrites", ">time", "what")
    for r in records:
        rich_table.add_row(
            r.name,
            f"{r.instructions_before:,}",
            f"{r.instructions_after:,}",
            f"{r.fired.total():,}" if r.changed else "-",
            time_text(r.end_s - r.start_s),
            r.stopped or ", ".join(f"{name} {n}" for name, n in r.fired.most_common(4)),
        )
    print_table(rich_table, console(), err=True)


def show_trace(trace: api.Trace, explain: bool) -> None:
    """Every rewrite as text before and after; with `explain` also what declined and why."""
    for e in trace.events:
        name = typer.style(e.rule.name, bold=True)
        if e.declined is None:
            typer.echo(f"{name}: {e.rule.law}\n  - {e.before}\n  + {e.after}", err=True)
        elif explain:
            typer.echo(f"{name} declined: {e.declined}\n  = {e.before}", err=True)


def as_data(
    result: api.PassResult,
    records: list[api.PassRecord],
    trace: api.Trace,
    module: api.Module,
    out: str,
) -> dict[str, Any]:
    """All of it as plain data; the text of the module too where it goes nowhere else."""
    return {
        "ok": True,
        "changed": result.changed,
        "instructions": module.instruction_count,
        "passes": [
            {
                "pipeline": r.pipeline,
                "name": r.name,
                "changed": r.changed,
                "seconds": r.end_s - r.start_s,
                "instructions_before": r.instructions_before,
                "instructions_after": r.instructions_after,
                "fired": dict(r.fired),
                "dumps": r.dumps,
                "stopped": r.stopped,
            }
            for r in records
        ],
        "fired": dict(trace.fired),
        "declined": [
            {"rule": rule, "reason": reason, "times": n}
            for (rule, reason), n in trace.declined.items()
        ],
        "rewrites": [
            {"rule": e.rule.name, "before": e.before, "after": e.after, "declined": e.declined}
            for e in trace.events
        ],
        "out": None if out == "-" else out,
        "module": api.show(module, large_constants=True) if out == "-" else None,
    }
