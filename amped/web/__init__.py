"""The page in the browser at which one plays: it asks what the command line asks, and shows the same answers.

`state.py` turns what the page says into the question that options of the command line would be, `answers.py` answers it as
plain data, `server.py` hands both over to a browser on the same machine. The page itself lies in `page/`.
"""
