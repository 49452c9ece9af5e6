"""RETAIN SIGNIFICANT: a stream keeps those objects only that some query may come to need (SOLE section 4).

After each step an object stays if it is present and significant (SOLE Definition 2): an active query's
focal object, or within the extended region of at least one active query, that is the query's region and its
cache area (Definition 3). All others are forgotten in that step: record, key and memory. Answers after a
step are those over what is kept. A reference count says for how many queries an object is kept; a focal
object does not count for its own queries, in whose answers it never is.

Modules: `settings` (which streams, what is asked of their memory), `reach` (how far a region is extended),
`table` and `interest` (extended regions, who is in them, reference counts), `near` (those of kNN queries).
`stretch` cuts a batch into pieces, and takes many steps in as one while nothing but records comes; `sieve`
leaves out before that which records concern nobody. Other steps are pieces of their own, `step`: from
`interest` by way of `shedding` and `shadow` (which objects load shedding drops, and what queries lack by
that) to `keeping` (who goes, and how the others' rows close ranks). `tally` has figures by query and of the
stream, with `standing` and `sizes`. Query load shedding scales regions, see
`stqsh.core.matching.region_scaling`.

What a moving region's cache area must hold, for answers to be exact. Let V be MAX SPEED, R REPORT EVERY, t
the tick. Object P is in query Q after step T by its record of step s <= T; Q lies around the focal object F.
A step lasts t, so a record's time is at most t before that of its step, or it came late, and is older. After
T P's record is at most R old: T - s <= R. After any step u of s .. T the record of F that counts is at most R
old, and that of T is not from after T. So the times of the two are at most (T - u) + R <= 2 R apart, and 3 t
more leave room for how steps round the times of u, s and T. Hence F after u is within D = V (2 R + 3 t) of F
after T, and P, which stays where it is, within the region that is extended by D around F after u: for a
circle by the triangle inequality, for rectangles see `stqsh.core.kernels.geometry.boxes.extended`. So P has
been kept from s on, in each step. P's own movement plays no part, for s is the step of the record that counts
at T; D covers it all the same, which bounds what conditions and neighbours need.

That holds while F is connected: when it comes back after a gap, its queries are as new ones, which see what
is kept and have everybody within REPORT EVERY. To spare them that, all would have to be kept that F may come
upon: within D of where it was, and V farther with each second of the gap, for queries that have no answer
meanwhile, whether F comes back or not. SOLE's queries are where their focal objects are, so nobody is.

What SOLE leaves open. Its k is a whole number: where most objects are wanted by one query, k = 2 would drop
them all for the sake of a few, so SOLE stops dropping once the load is at its target. Whoever was dropped by
then would come back with the next report, and others go for them. Here k stays, and of the objects with k - 1
references only a part is dropped, by their keys' hashes: always the same ones, as many as have to go.

What no query can be promised. Shedding drops nobody from whom a query would fall under its minimum
accuracy. But of what it still holds any part may go in the next step, by silence, an empty location or by
moving away, while what it lacks has no record before it reports: whatever policy drops as much as one
object of a query's n, the n - 1 others may all be gone a step later, and its accuracy is 0 of 1. Nothing
that a slot knows in a step bounds that. So a query is under its minimum only after such departures. Nobody
it asks for is dropped then, each report of whom it lacks brings one back, and what does not report within
REPORT EVERY is silent and counts no more: then at the latest it is at its minimum again, if nobody else
went.

Neighbours and slots. A slot keeps for a kNN query what may come to be among the k nearest of the slot's own
objects. The k nearest of all slots are known only when their batch has been merged, many steps too late to
decide with them, and sooner for short batches than for long ones: answers would depend on how a run is cut.
So with a factor below 1, and in the first REPORT EVERY of a query, more slots keep more, and answers come
nearer to the exact ones; with 1, and after that, answers are exact on any number of slots.

Costs, as multiples of what the same records cost a stream that retains all (one slot, 100 000 objects, 1000
queries, within one run): 20 steps a batch with 5000 records each: 0.6 with rectangles that stand still, 1.2
with ones that move; with 1000 records each 0.8 and 2.4; one step a batch 1.4 and 1.5. The same, if each
step is taken by itself, as while shedding, with kNN queries or with `dwell`: 4.3 and 5.0; 8.7 and 9.8; 2.0
and 2.6.

What was told of objects that are forgotten: members of the frozen answer of a paused query, and those whose
going waits for `dwell`, are taken back by their keys alone, for the reason `left`.
"""
