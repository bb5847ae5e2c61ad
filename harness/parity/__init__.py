"""Parity: a schedule's numbers against the seeded monolith's (DESIGN: "Oracles for numbers").

:mod:`~harness.parity.program` runs the steps on a rank and brings back what it computed,
:mod:`~harness.parity.reference` computes the same on the monolith,
:mod:`~harness.parity.bounds` measures how far rounding alone may part the two,
:mod:`~harness.parity.causes` tells by arithmetic what a wrong gradient is made of.
"""
