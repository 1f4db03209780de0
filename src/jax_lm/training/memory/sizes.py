"""Sizes as people read them."""


def shown(size: float, like: float | None = None) -> str:
    """Bytes in GB (of 10^9), or in MB where they, or what they stand beside, are less than one."""
    if (size if like is None else like) >= 1e9:
        return f"{size / 1e9:,.2f} GB"
    return f"{size / 1e6:,.2f} MB"
