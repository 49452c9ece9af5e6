"""RETAIN SIGNIFICANT: a stream keeps only the objects that some query may need (SOLE section 4).

After each step an object stays if it is present and significant (SOLE Definition 2): it is the focal object
of an active query, or it is inside the extended region of at least one active query, which is the query's
region with its cache area (Definition 3). All other objects are forgotten in that step, and answers cover the
objects that are kept. A reference count is the number of queries for which an object is kept (section 5.3);
under memory pressure, objects with few references are dropped (sections 6.2 to 6.5). `cache_distance`
explains how far regions are extended and why answers are exact; `object_shedding` explains what shedding can
and cannot guarantee.
"""
