"""Exact rewrites to canonical form (`form`) and back (`gauge`); `structure` is the torch-free view of the former."""
