"""Programs that mean harm, by name: what each tries, and how the sandbox ends it.

A program earns its test only by printing `escaped` (or returning it), which it does when it gets
its way.
"""
