"""``hocket demo``: two real trainings, each alone, then both together on one GPU too small for the sum of their needs.

plan.py     which trainings, how large, on which device
stage.py    a coordinator and a device of the demo's own; starts programs there
watch.py    what the coordinator says while they run: progress, memory, turns
play.py     the acts, and what each left behind
results.py  from all that: the table, the checks, the JSON
picture.py  the turns over time, as a PNG
"""
