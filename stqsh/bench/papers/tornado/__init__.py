"""Figures of Tornado: A-Grid, textual summaries, the cost of routing, and loads that condense."""
