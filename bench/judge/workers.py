"""Runs jobs on all cores."""

import concurrent.futures
import os


def each(work, jobs):
    """The results of `work` for each job, in order. The longest jobs should come first."""
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, jobs))
