"""What `atf demo` runs: real files hashed through all roles, one executor killed on the way, everything checked.

files.py    what is hashed, and the demo's own computation of every hash
lambdas.py  the lambda, which computes them by code of its own
record.py   the lambda's record of starts and ends, apart from anything ATF keeps; and what it proves
strike.py   the kill
flow.py     schedules the tasks and follows them to their ends
report.py   the figures and the verdict
view.py     what is shown meanwhile
"""
