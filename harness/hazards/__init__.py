"""What would hang under NCCL, decided from a run that finished elsewhere.

With named sources, the order in which a rank posts and waits does not depend on the backend. A
finished run is therefore enough: its posts and waits (:mod:`harness.hazards.scripts`) are gone
through again (:mod:`harness.hazards.replay`) under NCCL's rules (:mod:`harness.hazards.queues`).
"""

from harness.hazards.check import check_hazards

__all__ = ["check_hazards"]
