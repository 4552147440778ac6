"""Models of unequal size: exact enlargement, and the smallest size that two models can both be brought to."""
