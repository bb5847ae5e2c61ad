"""Pipeline-parallel training from plain parts: schedule, plan, comms, executor.

Data flows one way: a schedule yields actions, they make a plan, the plan is lowered to one with
sends and receives, and an executor runs a rank's row of it through `torch.distributed`.
"""
