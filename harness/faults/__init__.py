"""The labelled corpus of faults: each a small faulty program with its correct twin, and its score.

An entry is one Python file (:mod:`harness.faults.entry` has the format); :mod:`.corpus` finds
them, :mod:`.examine` runs one, :mod:`.score` says how good the harness is at all of them.
"""
