"""Drawings of a plan in time, without running it: when each action would run, and what it costs.

A plan is read (:mod:`~harness.plot.load`), put in time (:mod:`~harness.plot.placed`) and measured
(:mod:`~harness.plot.figures`); each form draws that (:mod:`~harness.plot.forms`). None of it
imports torch, except to word the finding of an invalid plan.
"""
