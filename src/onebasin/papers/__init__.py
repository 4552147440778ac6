"""What the three papers do otherwise: options, presets and parts that reproducing them needs, and nobody else."""
