"""Sends against receives. NCCL's recorder has them; gloo's has not."""

from .model import Finding


def judge_messages(group, dumps):
    """Of one group: the n-th send from a rank to another against the n-th recv there. A rank's number in names is the group's."""
    sent, received = _queues(group, dumps)
    if any(entry.op == "recv_any_source" for dump in dumps.values() for entry in dump.entries):
        return  # which send it takes is not recorded
    for pair in sorted(set(sent) | set(received), key=str):
        source, target = (_world_rank(group, one) for one in pair[:2])
        if source not in dumps or target not in dumps:
            continue
        yield from _judge_pair(group, source, target, sent.get(pair, []), received.get(pair, []),
                               dumps[source].lost or dumps[target].lost)


def _world_rank(group, number):
    return group.ranks[number] if group.is_known and number < len(group.ranks) else number


def _queues(group, dumps):
    sent, received = {}, {}
    for dump in dumps.values():
        for entry in dump.entries:
            if entry.group == group.name and entry.is_p2p and entry.peer:
                (sent if entry.op == "send" else received).setdefault(entry.peer, []).append(entry)
    return sent, received


def _judge_pair(group, source, target, sent, received, is_lost):
    if is_lost:  # the numbers of the two ranks are not the same: only those under way can be compared
        sent = [entry for entry in sent if not entry.done]
        received = [entry for entry in received if not entry.done]
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
