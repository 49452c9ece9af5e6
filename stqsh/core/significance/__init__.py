"""RETAIN SIGNIFICANT: a stream keeps those objects only that some query may come to need (SOLE section 4).

After each step an object stays if it is present and significant (SOLE Definition 2): an active query's focal
object, or within the extended region of at least one active query, that is the query's region and its cache
area (Definition 3). All others are forgotten in that step: record, key and memory. So a batch of such a stream is
taken in step by step (`stqsh.core.pieces.steps`), and answers after a step are those over what is kept.

Modules: `settings` (which streams, what is asked of their memory), `reach` (how far a region is extended),
`table` and `interest` (extended regions, who is in them, reference counts), `near` (those of kNN queries),
`keeping` (who goes, and how the others' rows close ranks), `step` (one piece of a batch, from `interest` to
`keeping`; load shedding stands between the two), `tally` (figures by query and of the stream).

What a region's cache area must hold, for answers to be exact. Let V be MAX SPEED, R REPORT EVERY, t the tick.
Object P is in query Q after step T by its record of step s <= T; Q's region lies around the focal object F.
P's record is at most R old after T, or P were disconnected, and a record comes to a step at most one tick after
its time, hence T - s <= (R + t) in time. Let u be a step in s .. T. The record of F that counts after u was made
at most R before u, and that after T at most R before T: so their times are at most (T - u) + R + t <= 2 R + 3 t
apart, with a tick for the rounding of steps. F is within V (2 R + 3 t) = D of where it will be then: after each
of the steps s .. T, P was within D of Q's region of step T, moved to where F was, and hence in the region
extended by D; so P has been kept from s on, without a gap. For a circle that is its radius and D. For a
rectangle on the sphere see `reach.extended_rectangle`.

Two things are kept in favour of what has been told: the objects for whose `dwell` a query waits stay until it
has passed. Members of the frozen answer of a paused query are forgotten like others; when the query goes on
or is dropped, those are taken back by their keys alone.
"""
