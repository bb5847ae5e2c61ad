"""Codes about how ranks ended, and about what depends on the backend or on timing."""

from harness.codes.code import Code

CODES = (
    Code(
        name="invalid-argument",
        summary="the backend refuses the call",
        meaning="""
A communication was called with what its backend cannot take: a send to oneself, a negative tag, a
size that is not a whole number, a non-contiguous tensor, a tensor on the wrong device (which gloo
passes over in silence). A call that fails because its peer has gone, or did not come in time, is
another matter and no such finding.
""",
        why="The call fails on this rank, and its peers wait for a message that never comes.",
        example="""
size = batch / chunks  # a float
dist.recv(torch.empty(size, width), src=0)
""",
        instead="""
size = batch // chunks
dist.recv(torch.empty(size, width), src=0)
""",
        fix="Mend the argument that the message names.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="rank-error",
        summary="a rank raised an exception",
        meaning="""
The program itself raised on a rank, outside of the checks above. The report shows that rank's
traceback from your own frame on; errors that other ranks got because of it are folded into it.
""",
        why="A rank that is gone leaves the others waiting, or in errors that name another place.",
        example="""
activations = [None] * (world_size - 1)
activations[chunks]  # IndexError where chunks < world_size - 1
""",
        instead="""
warmup = min(chunks, world_size - rank - 1)
""",
        fix="Mend what the traceback shows; replay gives the same case again.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="rank-death",
        summary="a rank was killed, or left without a word",
        meaning="""
A rank's process ended by a signal (an abort in native code, the out-of-memory killer), or by
os._exit with a status other than 0, without a Python exception. os._exit(0) counts as an end.
""",
        why="Nothing is printed by the rank itself; its peers only see a closed connection.",
        example="""
os._exit(1)
""",
        instead="""
raise RuntimeError("why this rank cannot go on")
""",
        fix="""
Look at the signal: SIGABRT comes from native code, often from a receive buffer that is too small;
SIGKILL mostly from a lack of memory; SIGSEGV from native code.
""",
        backends=("gloo", "nccl"),
    ),
    Code(
        name="timeout",
        summary="no progress for the given time, and no deadlock that can be proved",
        meaning="""
No rank posted, completed or computed anything for --timeout seconds, and at least one may still go
on by itself: it is in a loop, a poll, a sleep or a long computation, its wait has a timeout of its
own, or another of its threads may still post. The report shows where each rank was. Where ranks
seem to wait for each other, or for one that has finished, it says so, as a suspicion.
""",
        why="""
A loop that polls is_completed() on a gloo send never ends, as nothing drives the request; nor does
a second wait for the request of one message. A computation that is merely long is not wrong: give
it a longer --timeout.
""",
        example="""
while not work.is_completed():
    pass
""",
        instead="""
work.wait()
""",
        fix="""
Wait instead of polling, once for each request; or raise --timeout above the longest step without
messages.
""",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="nccl-hazard",
        summary="finishes on gloo, hangs or mixes up messages under NCCL's ordering or capacity",
        meaning="""
The run finished; what it posted and waited for was gone through again by NCCL's rules, and there
it does not finish. With named sources a rank posts and waits in the same order on every backend, so
that one run decides. The cause says which rule it is. needs-capacity: a send waits for its receive
unless there is buffer space, and nobody can rely on how much. queue-order: all operations of a
communicator stand in one queue, and one that cannot run yet holds up those behind it.
lazy-communicator: without device_id a communicator is made at its first use, and holds each rank
in the call until the others come. batch-shape: batches and single messages go over different
communicators, and a batch has one work for all of it. tags-ignored: NCCL has no tags, and pairs
messages in the order of posting. details.semantics says where the program hangs: nccl-eager is a
group made with device_id, nccl-lazy one without; capacity is the buffer space.
""",
        why="What passes on CPU hangs on the first GPU job, or only once its tensors are large.",
        example="""
work = dist.isend(activation, peer)  # on both ranks: each receive stands behind a send
dist.recv(gradient, peer)
work.wait()
""",
        instead="""
batch = [dist.P2POp(dist.isend, activation, peer), dist.P2POp(dist.irecv, gradient, peer)]
for work in dist.batch_isend_irecv(batch):
    work.wait()
""",
        fix="""
Post both directions of an exchange as one batch_isend_irecv, both ends of a message in a batch or
neither; keep receives in the order of the sends, and collectives in one order with the messages;
begin with a collective of the group, or give init_process_group a device_id. It is a warning in
run and an error in check: schedules are for GPUs.
""",
        backends=("sim", "gloo"),
    ),
    Code(
        name="nondeterminism",
        summary="the same case with another interleaving of the ranks differs",
        meaning="""
Runs of one case ended in other results: on real ranks, a failure that fresh runs of the same case
did not show again; in the simulator, ranks interleaved in other orders. It is an error in check,
and a warning in run or where other operations came to the same numbers.
""",
        why="Such a fault passes most of the time, and cannot be reproduced by running again.",
        example="""
dist.recv(buffer)  # from whichever rank comes first
total = buffer if total is None else total * 2 + buffer
""",
        instead="""
for source in range(1, world_size):
    dist.recv(buffer, src=source)
""",
        fix="""
Name the source of each receive; wait instead of polling is_completed(); draw random numbers from a
seed of the rank's own.
""",
        backends=("sim", "gloo", "nccl"),
    ),
)
