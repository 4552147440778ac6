"""Processes: several that share one run (`torchrun`), and the signals that ask one to end."""
