"""What SOLE section 4.5 computes of a square's cache area: equations 1 to 4, for objects spread evenly."""

from __future__ import annotations

from stqsh.bench.sole.town import Drive


def growth(drive: Drive, factor: float) -> float:
    """By how many metres a square's side grows: d = 2 c t v."""
    return 2 * factor * drive.unit_s * drive.metres_a_second


def overhead(side: float, grown: float) -> float:
    """The cache area in per cent of the square, equation 1: side in metres, and by how much it grows."""
    return 100 * ((side + grown) ** 2 - side**2) / side**2


def accuracy(side: float, drive: Drive, factor: float) -> float:
    """Return the accuracy in per cent that equation 4 expects of a cache with this factor."""
    return 100 * ((side + growth(drive, factor)) / (side + growth(drive, 1.0))) ** 2
