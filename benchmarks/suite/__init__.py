"""What all benchmarks share: results, interleaved measuring, the run of all of them, and what is made of its results.

Nothing here imports torch when it is imported, so that a run starts at once and results are rendered anywhere.
"""
