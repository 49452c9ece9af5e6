"""RETAIN SIGNIFICANT: a stream keeps only the objects that some query may need (SOLE section 4).

After each step an object stays if it is present and significant (SOLE Definition 2): the focal object of an
active query, or inside the extended region of at least one active query, which is the query's region with its
cache area (Definition 3). All others are forgotten in that step, and answers cover what is kept. A reference
count is the number of queries that an object is kept for (section 5.3); under memory pressure, objects with
few references are dropped (sections 6.2 to 6.5). See `cache_distance` for how far regions are extended and
why answers are exact, and `object_shedding` for what shedding can and cannot promise.
"""
