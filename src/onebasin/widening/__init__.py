"""Models of unequal size: exact enlargement, and the smallest size that some models can all be brought to."""
