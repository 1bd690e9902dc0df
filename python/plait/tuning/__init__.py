"""Measured choices: which algorithm is the fastest for which sizes, on this machine.

`candidates` has what is compared, `spread` says when one is faster, `search` measures one size, `ranges` makes rules of
sizes, and `tables` keeps all of it in a profile. None of them measures by itself: they are given a measurer.
`win_table` makes the tables of the drop-in.
"""
