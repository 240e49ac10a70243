"""Sets of time: sorted lists of disjoint (begin, end)."""


def union(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(spans):
    return sum(end - begin for begin, end in spans)


def common(one, other):
    """Of two unions."""
    both, at = [], 0
    for begin, end in one:
        while at < len(other) and other[at][1] <= begin:
            at += 1
        here = at
        while here < len(other) and other[here][0] < end:
            both.append((max(begin, other[here][0]), min(end, other[here][1])))
            here += 1
    return both
