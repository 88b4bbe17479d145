"""What runs a cell: one importable function and one string."""
