"""Codes about requests, their buffers and the group they run in."""

from harness.codes.code import Code

CODES = (
    Code(
        name="unawaited-request",
        severity="warning",
        summary="a request that completed and was never waited for",
        meaning="""
The Work that an isend, irecv or asynchronous collective returned was kept, and the program ended
without a wait for it. It happened to complete; or it is a collective that some rank never came to,
which the message says.
""",
        why="""
Only a wait makes the data safe to use, and raises the request's error. Without it the program
depends on timing.
""",
        example="""
works.append(dist.isend(activation, dst=1))
# … and works is never looked at
""",
        instead="""
works.append(dist.isend(activation, dst=1))
for work in works:
    work.wait()
""",
        fix="Wait for every request, at the latest before the step ends or its tensor is reused.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="dropped-request",
        summary="a request was garbage-collected while it was pending",
        meaning="""
The Work that an isend or irecv returned was not kept, and nothing refers to it any more before the
message was matched.
""",
        why="""
On gloo a dropped isend is delivered only if its receive was already posted; else the message is
withdrawn and the receiver hangs. Whether it works is a race.
""",
        example="""
dist.isend(activation, dst=1)
""",
        instead="""
work = dist.isend(activation, dst=1)
…
work.wait()
""",
        fix="Keep the Work until it has been waited for.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="buffer-overwrite",
        summary="a tensor changed between its isend and the wait",
        meaning="""
A tensor given to isend was written to, in place, before the send was waited for.
""",
        why="The receiver may get the new values, the old ones, or some of each.",
        example="""
work = dist.isend(buffer, dst=1)
buffer.copy_(following)
work.wait()
""",
        instead="""
work = dist.isend(buffer, dst=1)
work.wait()
buffer.copy_(following)
""",
        fix="Wait before the tensor is reused, or send a copy, or alternate between two buffers.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="early-read",
        summary="a receive's buffer was read or written before its wait",
        meaning="""
The buffer of an irecv was used between the call and the wait for it. On real ranks only writes to
it are seen.
""",
        why="It holds old values until the message has come, so the result is a matter of timing.",
        example="""
work = dist.irecv(buffer, src=0)
out = stage(buffer)
work.wait()
""",
        instead="""
work = dist.irecv(buffer, src=0)
work.wait()
out = stage(buffer)
""",
        fix="Wait before the first use of the buffer.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="early-destroy",
        summary="the process group was destroyed with operations pending",
        meaning="destroy_process_group was called while this rank had operations of it pending.",
        why="""
Pending messages are lost without an error on gloo, and the peer that waits for them hangs or sees
a closed connection. With NCCL the communicator is aborted.
""",
        example="""
work = dist.isend(activation, dst=1)
dist.destroy_process_group()
""",
        instead="""
work = dist.isend(activation, dst=1)
work.wait()
dist.destroy_process_group()
""",
        fix="Wait for every request before the group is destroyed; a barrier alone is not enough.",
        backends=("sim", "gloo", "nccl"),
    ),
)
