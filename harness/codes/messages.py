"""Codes about sends and receives, and about waits that nothing can end."""

from harness.codes.code import Code

CODES = (
    Code(
        name="deadlock",
        summary="ranks wait for each other in a cycle that nothing can break",
        meaning="""
Each rank of the cycle is blocked in an operation that only the next rank can complete, and the
next rank is blocked as well. This is proved from what every rank has posted, not concluded from
a timeout: the ranks could wait for ever. The cause is needs-buffering where the program is shown to
finish if sends complete before their receives, and missing-receive where that leaves a message
which nobody has received; tag-mismatch or wrong-group where two ranks have come to the same
operation with different tags or in different groups; else order: each would come to what the next
one waits for only later, if at all.
""",
        why="""
On gloo a send completes only when its receive is posted, at every size. Other transports buffer
small messages, so that such a program may run in a test and hang with larger tensors.
""",
        example="""
# ranks 0 and 1
dist.send(mine, dst=other)
dist.recv(theirs, src=other)
""",
        instead="""
work = dist.isend(mine, dst=other)
dist.recv(theirs, src=other)
work.wait()
""",
        fix="""
Make one of the sends an isend and wait for it after the receive; or let one rank receive first;
or post both as one batch_isend_irecv. In 1F1B it is enough to isend the activations.
""",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="orphan-wait",
        summary="a rank waits for what no rank can post any more",
        meaning="""
A rank is blocked in a receive, a send or a collective, and the rank that would have to take part
has finished, or has gone past the place. The cause says what is shown of it: missing-send,
missing-receive or missing-collective, with the collective that is left out and the place where the
ranks' counts part; tag-mismatch, wrong-group or wrong-peer where it was posted, with another tag,
in another group, or between other ranks; order where a receive from any source took the message.
""",
        why="""
The rank hangs until the group's timeout, 30 minutes on gloo, and the error then names neither the
peer nor the operation.
""",
        example="""
if rank == 0:
    dist.barrier()
""",
        instead="""
dist.barrier()  # on every rank of the group
""",
        fix="""
Let both sides count alike: every send its receive, every collective on every rank of its group.
Look for a branch on the rank, a loop over chunks that ends one early, an early return.
""",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="shape-mismatch",
        summary="a send and the receive that takes it disagree in size or shape",
        meaning="""
The two sides of one message were given tensors of different element counts (an error), or of equal
counts but different shapes (a warning: a flat send into a shaped buffer may be meant).
""",
        why="""
Nothing checks this. On gloo a buffer that is too large is filled in part and keeps its old values
behind; one that is too small aborts the receiving process with no Python exception.
""",
        example="""
dist.send(activation, dst=1)  # 8 samples
dist.recv(torch.empty(32, width), src=0)  # room for 32
""",
        instead="""
dist.recv(torch.empty(8, width), src=0)
""",
        fix="""
Size the receive buffer by the microbatch, not by the batch, and remember that the last microbatch
may be smaller. stage.input_shape(n) and stage.output_shape(n) give the shapes.
""",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="dtype-mismatch",
        summary="a send and the receive that takes it disagree in dtype",
        meaning="The two sides of one message were given tensors of different dtypes.",
        why="""
Bytes are copied and not converted. With equal sizes the receiver silently reads other numbers;
with unequal ones it is a shape-mismatch on top.
""",
        example="""
dist.send(activation.bfloat16(), dst=1)
dist.recv(torch.empty(8, width, dtype=torch.float16), src=0)
""",
        instead="""
dist.recv(torch.empty(8, width, dtype=torch.bfloat16), src=0)
""",
        fix="Allocate the buffer in the sender's dtype; stage.dtype is the one between stages.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="message-swap",
        summary="a message was taken by a receive that was meant for another",
        meaning="""
Messages between two ranks with one tag are matched in the order in which they were posted. Here
the sender's action and the receiver's differ: the receive for one microbatch, for another stage or
for a gradient took what was sent for another. A plan names its actions exactly. A step's calls of
comms are only counted, so there only activations and gradients are told apart; microbatches that a
step mixes up show in its numbers.
""",
        why="""
Shapes mostly agree, so nothing fails: the wrong numbers are computed with, and the loss may still
fall.
""",
        example="""
# the rows of ranks 0 and 1
["0F0", "0F1", "0SEND_F1", "0SEND_F0"]
["1RECV_F0", "1F0", "1RECV_F1", "1F1"]  # 1RECV_F0 takes 0SEND_F1
""",
        instead="""
["0F0", "0F1", "0SEND_F0", "0SEND_F1"]
["1RECV_F0", "1F0", "1RECV_F1", "1F1"]
""",
        fix="""
Post receives in the order in which the peer posts its sends. Waits may come in any order. Where
backends keep tags, a tag for each microbatch makes the order free; NCCL keeps none.
""",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="unreceived-message",
        summary="a message was sent and never received by the end",
        meaning="A send was posted, and its peer finished without a receive for it.",
        why="""
A receive is missing, so a microbatch's data was not used; or the send is one too many. gloo ends
such a program silently; with NCCL it may hang at the end.
""",
        example="""
for microbatch in range(chunks):  # sender
    works.append(dist.isend(out[microbatch], dst=1))
for microbatch in range(chunks - 1):  # receiver
    dist.recv(buffer, src=0)
""",
        instead="""
for microbatch in range(chunks):
    dist.recv(buffer, src=0)
""",
        fix="Let both sides loop over the same microbatches, and wait for every isend.",
        backends=("sim", "gloo", "nccl"),
    ),
)
