"""Learning: the loss along the path refines the maps that matching found (`learning` has the way through)."""
