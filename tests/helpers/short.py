"""Arguments that keep a command short."""

QUICK = ("--set", "weight.sweeps=3", "--set", "universe.rounds=2", "--device", "cpu")
FEW = ("--task", "builtin:python", "--samples", "4", "--length", "8", "--device", "cpu")
