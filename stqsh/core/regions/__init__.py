"""Where a query looks: boxes in grids, exact circles and areas."""
