"""Sends against receives. NCCL's recorder has them; gloo's has not."""

from .model import PROFILE, Finding


def judge_messages(group, dumps):
    """Of one group: the n-th send from a rank to another against the n-th recv there. A rank's number in names is the group's."""
    sent, received = _queues(group, dumps)
    if any(entry.op == "recv_any_source" for dump in dumps.values() for entry in dump.entries):
        return  # which send it takes is not recorded
    for pair in sorted(set(sent) | set(received), key=str):
        source, target = pair[:2]
        if source not in dumps or target not in dumps:
            continue
        both = sent.get(pair, []), received.get(pair, [])
        if any(getattr(dumps[one], "has_sequence", False) for one in (source, target)):
            both = _that_both_hold(*both, has_end=False)
        elif dumps[source].lost or dumps[target].lost:
            both = _that_both_hold(*both, has_end=True)
        yield from _judge_pair(group, source, target, *both)


def _peers(group, entry):
    """(source, destination, and a tag) as ranks of the world. A dump names ranks of the group, a profile those of the world."""
    if entry.backend == PROFILE or not group.is_known:
        return entry.peer
    return tuple(group.ranks[one] if one < len(group.ranks) else one for one in entry.peer)


def _that_both_hold(sent, received, has_end):
    """From the first number that both sides still hold, where their numbers are the same from there on: a rank counts all its messages
    of a group, so those of a pair may have other numbers on each side. Without an end, what one side has more is none of its business."""
    first = max(entries[0].seq if entries else 0 for entries in (sent, received))
    sent, received = ([entry for entry in entries if entry.seq >= first] for entries in (sent, received))
    count = min(len(sent), len(received))
    if not count or any(one.seq != other.seq for one, other in zip(sent, received)):
        return [], []
    return (sent, received) if has_end else (sent[:count], received[:count])


def _queues(group, dumps):
    sent, received = {}, {}
    for dump in dumps.values():
        for entry in dump.entries:
            if entry.group == group.name and entry.is_p2p and entry.peer:
                (sent if entry.op == "send" else received).setdefault(_peers(group, entry), []).append(entry)
    return sent, received


def _judge_pair(group, source, target, sent, received):
    for send, recv in zip(sent, received):
        if send.dtypes != recv.dtypes or send.elements_in != recv.elements_out:
            kind = "dtype" if send.dtypes != recv.dtypes else "size"
            yield Finding(kind, [source, target], f"send of rank {source} and recv of rank {target} differ", group.name,
                          send.seq, "send", str(send), str(recv), send.site, recv.site, frames=send.frames)
            return
    for entry in sent[len(received):]:
        yield _single("recv", target, source, entry, group)
        return
    for entry in received[len(sent):]:
        yield _single("send", source, target, entry, group)
        return


def _single(lacking, faulty, waiting, entry, group):
    """The first message of a pair that has one side only."""
    return Finding("message", [faulty], f"no {lacking} for the {entry.op} of rank {waiting}", group.name, entry.seq,
                   entry.op, f"a {lacking} on rank {faulty}", f"{entry} on rank {waiting}, "
                   f"{'completed' if entry.done else 'not completed'}", entry.site, "",
                   [] if entry.done else [waiting], entry.created_ns, entry.frames)
