"""Methods: one class in one file each; `registry` knows them all."""
