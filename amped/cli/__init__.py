"""The command line: each verb reads, calls the library and shows. No physics."""
