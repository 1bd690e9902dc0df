"""Numbers of bytes as text."""


def size_text(size: int) -> str:
    """`size` in bytes as text that commands take: "64 MiB"; the largest unit that leaves no fraction."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
