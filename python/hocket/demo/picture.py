"""The turns over time, and device memory below, as a PNG."""

from __future__ import annotations

from pathlib import Path

from hocket.demo.results import Results

COLOURS = ("#3266ad", "#d9822b")
ARENA = "#9aa5b1"
SPILLED = "#b03a2e"
INK = "#27313b"
MIB = 1 << 20


def draw(results: Results, path: Path) -> None:
    """Writes the picture of ``results`` to ``path``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 10, "axes.edgecolor": INK, "text.color": INK, "axes.labelcolor": INK})
    figure, (lanes, memory) = plt.subplots(
        2, 1, figsize=(12, 6.2), sharex=True, height_ratios=[1, 1.4], layout="constrained"
    )
    start = min((turn.start for turn in results.turns), default=0)
    _draw_turns(lanes, results, start)
    _draw_memory(memory, results, start)
    where = "one emulated GPU" if results.emulated else "one GPU"
    figure.suptitle(
        f"Two trainings take turns on {where} of {results.capacity / MIB:.0f} MiB", x=0.01, ha="left", weight="bold"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_turns(axes, results: Results, start: float) -> None:
    for row, job in enumerate(results.jobs):
        spans = [(t.start - start, t.end - t.start) for t in results.turns if t.job == job.name]
        axes.broken_barh(spans, (row - 0.36, 0.72), facecolors=COLOURS[row], edgecolor="white", linewidth=0.4)
    labels = [f"{job.title}\n{job.turns} turns, {job.share:.0%} of the GPU" for job in results.jobs]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_title("who has the turn", loc="left", fontsize=10)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_memory(axes, results: Results, start: float) -> None:
    samples = [sample for sample in results.samples if sample.time >= start]
    times = [sample.time - start for sample in samples]
    layers = [[sample.resident.get(job.name, 0) / MIB for sample in samples] for job in results.jobs]
    layers.append([sample.arena / MIB for sample in samples])
    labels = [f"{job.name}: persistent, on the device" for job in results.jobs] + ["transient, of whoever has the turn"]
    axes.stackplot(times, *layers, labels=labels, colors=[*COLOURS, ARENA], step="post", alpha=0.85, linewidth=0)
    on_device = [sum(layer[i] for layer in layers) for i in range(len(samples))]
    everything = [on_device[i] + sum(sample.spilled.values()) / MIB for i, sample in enumerate(samples)]
    axes.fill_between(times, on_device, everything, step="post", facecolor="none", edgecolor=SPILLED, hatch="////",
                      linewidth=0, label="spilled, on the host")  # fmt: skip
    axes.axhline(results.capacity / MIB, color=INK, linewidth=1.2)
    axes.axhline(results.sum_alone / MIB, color=INK, linewidth=1.2, linestyle="--")
    right = max(times, default=1)
    _note(axes, right, results.capacity, "the device", INK)
    _note(axes, right, results.sum_alone, "what both need alone, in sum", INK)
    axes.set_ylim(0, max(results.sum_alone, results.capacity) / MIB * 1.18)
    axes.set_xlim(0, right)
    axes.set_ylabel("MiB")
    axes.set_xlabel("seconds")
    axes.set_title("what is where", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False)


def _note(axes, x: float, height: int, text: str, colour: str) -> None:
    axes.annotate(f"{text}: {height / MIB:.0f} MiB", (x, height / MIB), (-4, 3), textcoords="offset points",
                  ha="right", va="bottom", color=colour, fontsize=9)  # fmt: skip
