"""Figures of CheetahGIS: slots that counts pass over, biased loads, and how many cells a slot has."""
