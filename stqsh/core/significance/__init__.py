"""RETAIN SIGNIFICANT: a stream keeps those objects only that some query may come to need (SOLE section 4).

After each step an object stays if it is present and significant (SOLE Definition 2): an active query's focal
object, or within the extended region of at least one active query, that is the query's region and its cache
area (Definition 3). All others are forgotten in that step: record, key and memory. So a batch of such a
stream is taken in step by step (`stqsh.core.pieces.single_steps`), and answers after a step are those over
what is kept. A reference count says for how many queries an object is kept; a focal object does not count
for its own queries, in whose answers it never is.

Modules: `settings` (which streams, what is asked of their memory), `reach` (how far a region is extended),
`table` and `interest` (extended regions, who is in them, reference counts), `near` (those of kNN queries),
`keeping` (who goes, and how the others' rows close ranks), `shedding` and `shadow` (which objects load
shedding drops, and what queries lack by that), `step` (one piece of a batch, from `interest` by way of
`shedding` to `keeping`), `tally` (figures by query and of the stream), with `standing` and `sizes`. Query
load shedding scales regions, see `stqsh.core.matching.scaling`.

What a moving region's cache area must hold, for answers to be exact. Let V be MAX SPEED, R REPORT EVERY, t
the tick. Object P is in query Q after step T by its record of step s <= T; Q lies around the focal object F.
A step lasts t, so a record's time is at most t before that of its step, or it came late, and is older. After
T P's record is at most R old: T - s <= R. After any step u of s .. T the record of F that counts is at most R
old, and that of T is not from after T. So the times of the two are at most (T - u) + R <= 2 R apart, and 3 t
more leave room for how steps round the times of u, s and T. Hence F after u is within D = V (2 R + 3 t) of F
after T, and P, which stays where it is, within the region that is extended by D around F after u: for a
circle by the triangle inequality, for rectangles see `stqsh.core.kernels.moving.extended`. So P has been kept
from s on, in each step. P's own movement plays no part, for s is the step of the record that counts at T; D
covers it all the same, which bounds what conditions and neighbours need.

That holds while F is connected: when it comes back after a gap, its queries are as new ones, which see what
is kept and have everybody within REPORT EVERY.

Costs, as multiples of what the same records cost a stream that retains all (one slot, 100 000 objects, within
one run): 10 000 rectangles that stand still, of which 63 in 100 objects are kept: 3.3 with 5000 records a
step, 6 with 1000; 1000 rectangles that move: 5 and 7, of which 38 and 20 in 100 are kept. Nearly all of it is
what a step costs by itself, whatever comes in it, and the second join against the extended regions, whose
grid is also the greater part of what memory the counts take; a stream that retains all pays nothing.

What was told of objects that are forgotten: members of the frozen answer of a paused query, and those whose
going waits for `dwell`, are taken back by their keys alone, for the reason `left`.
"""
