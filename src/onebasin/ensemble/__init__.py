"""Models that belong together: checked, brought to one size and into canonical form once; and what aligned them."""
