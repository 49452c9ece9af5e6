"""The figures of the papers, beside what the papers report: `stqsh bench sole`, `star` and `routing`.

`figures` lists all of them, `runner` measures those that are asked for, `figure` is what a measurement
returns, and `drawing` draws it. Each folder has the figures of a paper, each module one figure or a few that
belong together; `routing` has what all figures about routing share, and our own ones.
"""
