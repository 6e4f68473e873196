"""The pages for people: they show the cluster and steer it, through the frontend's RPCs alone.

`app.py` puts them together: a table of pages (`pages/`), a table of actions (`actions/`), and what holds of every request
(`security.py`). Templates and static files stand beside; nothing is fetched from elsewhere, and nothing is built.
"""
