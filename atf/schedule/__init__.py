"""When recurring jobs fire: the grammar of their schedules, and the arithmetic of their instants.

    plan        which kind of schedule a text is, and what a job's fields mean together: start here
    job_plan    the plan of a job as it is stored
    cron        expressions, and the wall times that match; fields: one field of them
    dst         what changes of the clocks do to them, and what ticks before and after; zones: when those are
    every       @every, and the periods of reminders
    instants    RFC 3339, and points in time; durations: Go's and those of ISO 8601
    refusal     the form of every error: a sentence, the text, a caret below the place

All of it is pure: no clock, no store, no I/O but the tz database. An instant is an int, microseconds since the epoch.
"""
