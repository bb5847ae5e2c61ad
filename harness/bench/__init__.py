"""Cases per second of each world, beside the same case in torch's own multi-process test classes.

Every figure is taken in a fresh process, its start-up counted, one process after the other. The
case (:mod:`harness.bench.case`) is a 1F1B step whose loss and gradients are compared with the
monolith's. Nothing here imports torch but what runs in those processes.
"""
