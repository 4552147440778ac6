"""The promise, measured: random symmetries of a model, and the certificate of aligned ones."""
