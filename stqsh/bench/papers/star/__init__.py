"""Figures of STAR section 8, on the core in memory, beside the paper's words.

One slot holds made posts, without Spark, and questions are answered as a client answers them. `world` makes
the posts and `workload` the questions of the paper's table 1; `contenders` are the ways to answer that are
compared, `asking` times them and compares the answers; `figure_run` holds what the figures of a run share.
Each of the other modules has one figure or two that belong together; `continuous` has those of continuous
queries.
"""
