"""The command line: a file for each verb reads options, calls a room below and shows the answer. No physics."""
