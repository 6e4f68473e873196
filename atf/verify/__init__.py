"""Proof from outside: a known load on real processes that are killed and frozen, and a judge that believes nothing of ATF.

history.py  what happened to tasks, and what of it breaks a promise; the simulation uses it, too
            (events.py, task_history.py, allowances.py, judgement.py are its parts)
record.py   the lambdas' own record of when they ran; record_files.py is where it is kept
lambdas.py  the load's lambdas
load.py     the load: which tasks there are to be, and the stream that schedules them
watch.py    when processes die
watched.py  a cluster whose processes are watched and struck
bench.py    all of it around one cluster of roles, and the end
strikes.py  what is done to a role, and when, by a seed
stored.py   what the store says of the load's tasks
outcome.py  from events to figures
run.py      the course of `atf verify`
view.py     what is shown meanwhile
"""
