"""List the figures that `stqsh bench sole`, `star` and `routing` measure, and the functions that do."""

from __future__ import annotations

from stqsh.bench.papers.runner import Paper

SOLE = Paper(
    "sole",
    {
        "12": "sole.cache:measure",
        "13": "sole.overhead:speed",
        "14": "sole.overhead:size",
        "16": "sole.pipeline:selection",
        "17": "sole.pipeline:join",
        "18": "sole.grid_size:measure",
        "19": "sole.sharing:supported",
        "20": "sole.sharing:areas",
        "21": "sole.response:measure sole.served:measure",
        "22": "sole.curves:load",
        "23": "sole.curves:reduced",
        "24": "sole.curves:stable",
        "25": "sole.supported:measure sole.arriving:measure",
    },
    "sole.figure_run:prepare",
)
"""The figures of SOLE section 7, by their numbers."""

STAR = Paper(
    "star",
    {
        "4": "star.objects:measure",
        "6": "star.snapshots:constraints",
        "7": "star.continuous.throughput:constraints star.continuous.slot:measure",
        "8": "star.sizes:measure star.beside_databases:measure",
        "9": "star.slots:snapshots",
        "10": "star.continuous.throughput:tornado",
        "11": "star.slots:continuous",
        "13": "star.snapshots:memory star.continuous.throughput:memory",
        "index": "star.continuous.chosen:measure",
        "windows": "star.continuous.windowed:measure",
    },
    "star.figure_run:prepare",
)
"""The figures of STAR section 8, by their numbers; 4 shows the object cache; those with names are ours."""

ROUTING = Paper(
    "routing",
    {
        "balance": "routing.balance:measure",
        "tornado6": "tornado.agrid_throughput:measure",
        "tornado6c": "tornado.text_summaries:measure",
        "tornado7": "tornado.lookup_cost:measure",
        "tornado8": "tornado.scalability:measure",
        "tornado9": "tornado.condensing_load:measure",
        "tornado9b": "tornado.sent_statistics:measure",
        "tornado10": "tornado.routing_units:measure",
        "sstd7": "sstd.distributions:measure",
        "sstd8": "sstd.snapshots:keywords",
        "sstd9": "sstd.snapshots:neighbours",
        "sstd10": "sstd.snapshots:terms",
        "sstd11": "sstd.textual_splits:measure",
        "sstd12": "sstd.merged_queries:measure",
        "sstd13": "sstd.growth:measure",
        "sstd14": "sstd.adjustments:inserted",
        "sstd15": "sstd.adjustments:registered",
        "cheetah7": "cheetah.region_counts:measure",
        "cheetah7b": "cheetah.neighbours:measure",
        "cheetah8": "cheetah.latencies:measure",
        "cheetah9": "cheetah.rates:counts_by_cell_size",
        "cheetah9b": "cheetah.rates:neighbours_by_cell_size",
        "cheetah10": "cheetah.rates:counts_by_slots",
        "cheetah10b": "cheetah.rates:neighbours_by_slots",
        "cheetah12": "cheetah.biased_load:measure",
        "cheetah12a": "cheetah.cell_slots:measure",
        "star12": "star.partitionings:measure",
        "orbit": "routing.orbit:measure",
        "transfer": "routing.transfer:measure",
        "granularity": "routing.granularity:measure",
        "defaults": "routing.defaults:measure",
        "dealing": "routing.dealing:measure",
        "costs": "routing.costs:measure",
        "pruning": "routing.costs:pruning",
    },
    "routing.trials:prepare",
    has_charts=False,
    note=(
        "Slots run one after the other, so each has the processor's caches to itself. Makespan is the thread "
        "time of the slot that has most to do in a typical batch, records/s what follows if each slot has a "
        "processor of its own; dealing records and delivering updates are not part of it. The updates of a "
        "figure were equal under all its routings. With --quick, much of a makespan is the cost of an empty "
        "batch, which hides imbalance."
    ),
)
"""The figures of Tornado, SSTD, CheetahGIS and STAR that compare routings, by paper and number, and ours."""
